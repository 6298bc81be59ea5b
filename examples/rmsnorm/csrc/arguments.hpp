// Checks of the C ABI's arguments, shared by the CPU and the GPU entry points.
#pragma once

#include <cstdint>

#include "kernforge_rmsnorm.h"

namespace kfr {

// Each answers KFR_OK, or the first fault found. Zero rows and an empty batch are fine: there is nothing to do then.
std::int32_t check(const kfr_rmsnorm_args *args);
std::int32_t check(const kfr_verify_tree_args *args);

}  // namespace kfr
