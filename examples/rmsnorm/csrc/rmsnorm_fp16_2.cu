// RMSNorm of fp16 rows in packs of 2 bytes.
#include "format_fp16.cuh"
#include "rmsnorm_kernel.cuh"

template std::int32_t kfr::launch_rmsnorm<KFR_FP16, 2, false>(const kfr_rmsnorm_args &, void *);
