// One function an element type, each in its own unit so that they compile side by side.
#pragma once

#include <cstdint>

#include "kernforge_rmsnorm.h"

namespace kfr {

std::int32_t rmsnorm_fp32(const kfr_rmsnorm_args &args, void *stream);
std::int32_t rmsnorm_fp16(const kfr_rmsnorm_args &args, void *stream);
std::int32_t rmsnorm_bf16(const kfr_rmsnorm_args &args, void *stream);

}  // namespace kfr
