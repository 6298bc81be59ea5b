// RMSNorm of fp16 rows in packs of 4 bytes.
#include "rmsnorm_kernel.cuh"

template std::int32_t kfr::launch_rmsnorm<KFR_FP16, 4, false>(const kfr_rmsnorm_args &, void *);
