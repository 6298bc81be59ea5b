// RMSNorm of fp32 rows in packs of 4 bytes, fused with the addition of a residual.
#include "format_fp32.cuh"
#include "rmsnorm_kernel.cuh"

template std::int32_t kfr::launch_rmsnorm<KFR_FP32, 4, true>(const kfr_rmsnorm_args &, void *);
