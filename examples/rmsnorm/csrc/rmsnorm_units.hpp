// RMSNorm of one kind: element type, bytes a load, with or without a residual. Each kind is compiled in a unit
// of its own, named after it, so that they compile side by side and a change of one compiles one.
#pragma once

#include <cstdint>

#include "kernforge_rmsnorm.h"

namespace kfr {

template <std::int32_t kDtype, int kPackBytes, bool kResidual>
std::int32_t launch_rmsnorm(const kfr_rmsnorm_args &args, void *stream);

}  // namespace kfr
