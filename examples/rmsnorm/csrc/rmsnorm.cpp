// Sends an RMSNorm call to the unit of its kind.
#include <cstddef>

#include "arguments.hpp"
#include "rmsnorm_units.hpp"

namespace {

inline constexpr int kWidestPack = 16;  // bytes: the widest load a thread can make on every GPU since sm_50

// The widest pack that every row of every array starts on and is made up of.
int widest_pack(const kfr_rmsnorm_args &args, std::size_t element_bytes) {
  std::uintptr_t bits = static_cast<std::uintptr_t>(args.hidden) * element_bytes;
  const void *const arrays[] = {args.out, args.residual, args.input, args.weight};
  for (const void *array : arrays) bits |= reinterpret_cast<std::uintptr_t>(array);
  int bytes = kWidestPack;
  while (bits % static_cast<std::uintptr_t>(bytes) != 0) bytes /= 2;
  return bytes;
}

template <std::int32_t kDtype, bool kResidual>
std::int32_t run(const kfr_rmsnorm_args &args, void *stream) {
  constexpr int kElementBytes = kDtype == KFR_FP32 ? 4 : 2;
  switch (widest_pack(args, kElementBytes)) {
    case 16: return kfr::launch_rmsnorm<kDtype, 16, kResidual>(args, stream);
    case 8: return kfr::launch_rmsnorm<kDtype, 8, kResidual>(args, stream);
    case 4: return kfr::launch_rmsnorm<kDtype, 4, kResidual>(args, stream);
    case 2:
      if constexpr (kElementBytes == 2) return kfr::launch_rmsnorm<kDtype, 2, kResidual>(args, stream);
      break;
    default: break;
  }
  return KFR_BAD_POINTER;  // not even single elements are aligned
}

template <std::int32_t kDtype>
std::int32_t run(const kfr_rmsnorm_args &args, void *stream) {
  return args.residual != nullptr ? run<kDtype, true>(args, stream) : run<kDtype, false>(args, stream);
}

}  // namespace

extern "C" std::int32_t kfr_rmsnorm(const kfr_rmsnorm_args *args, void *stream) {
  const std::int32_t fault = kfr::check(args);
  if (fault != KFR_OK || args->rows == 0) return fault;
  switch (args->dtype) {
    case KFR_FP32: return run<KFR_FP32>(*args, stream);
    case KFR_FP16: return run<KFR_FP16>(*args, stream);
    default: return run<KFR_BF16>(*args, stream);
  }
}
