// The element types as the kernels see them: how one is read into fp32 and rounded back. A unit includes the one it
// needs, so that fp32 units are not slowed down by CUDA's headers for the other two.
#pragma once

#include <cstdint>

#include "kernforge_rmsnorm.h"

namespace kfr {

// `kDtype` is the type's number in the C ABI. narrow() rounds to nearest, ties to even.
template <std::int32_t kDtype>
struct Format;

}  // namespace kfr
