// RMSNorm of bf16 rows in packs of 2 bytes, fused with the addition of a residual.
#include "format_bf16.cuh"
#include "rmsnorm_kernel.cuh"

template std::int32_t kfr::launch_rmsnorm<KFR_BF16, 2, true>(const kfr_rmsnorm_args &, void *);
