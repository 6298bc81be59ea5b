// RMSNorm on the CPU: the reference that the kernels are measured against. Clear before fast.
#include <cmath>

#include "arguments.hpp"
#include "float_formats.hpp"

namespace {

template <typename T>
void normalize(const kfr_rmsnorm_args &args) {
  const auto *input = static_cast<const T *>(args.input);
  const auto *weight = static_cast<const T *>(args.weight);
  auto *residual = static_cast<T *>(args.residual);
  auto *out = static_cast<T *>(args.out);
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const std::int64_t start = row * args.hidden;
    double squares = 0.0;
    for (std::int64_t i = start; i < start + args.hidden; ++i) {
      if (residual != nullptr) residual[i] = T::from(input[i].value() + residual[i].value());
      const double x = residual != nullptr ? residual[i].value() : input[i].value();
      squares += x * x;
    }
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(args.hidden) + args.epsilon);
    for (std::int64_t i = 0; i < args.hidden; ++i) {
      const double x = residual != nullptr ? residual[start + i].value() : input[start + i].value();
      out[start + i] = T::from(static_cast<float>(x * scale * weight[i].value()));
    }
  }
}

}  // namespace

extern "C" std::int32_t kfr_rmsnorm_cpu(const kfr_rmsnorm_args *args) {
  const std::int32_t fault = kfr::check(args);
  if (fault != KFR_OK) return fault;
  switch (args->dtype) {
    case KFR_FP32: normalize<kfr::Fp32>(*args); break;
    case KFR_FP16: normalize<kfr::Fp16>(*args); break;
    default: normalize<kfr::Bf16>(*args); break;
  }
  return KFR_OK;
}
