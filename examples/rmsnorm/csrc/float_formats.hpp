// fp16 and bf16 on a CPU, in plain C++17: no CUDA header, so that the reference builds with any host compiler.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace kfr {

inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// The upper half of an fp32. Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
struct Bf16 {
  std::uint16_t bits;

  static Bf16 from(float value) {
    const std::uint32_t wide = bits_of(value);
    if (std::isnan(value)) return {static_cast<std::uint16_t>((wide >> 16) | 0x0040u)};
    const std::uint32_t tie = (wide >> 16) & 1u;
    return {static_cast<std::uint16_t>((wide + 0x7FFFu + tie) >> 16)};
  }

  float value() const { return float_of(static_cast<std::uint32_t>(bits) << 16); }
};

// IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits. Rounds to nearest, ties to even.
struct Fp16 {
  std::uint16_t bits;

  static Fp16 from(float value) {
    const std::uint32_t sign = (bits_of(value) >> 16) & 0x8000u;
    const float size = std::fabs(value);
    if (std::isnan(value)) return {static_cast<std::uint16_t>(sign | 0x7E00u)};
    // 65520 is the midpoint between the largest finite value, 65504, and the next step: it rounds up.
    if (size >= 65520.0f) return {static_cast<std::uint16_t>(sign | 0x7C00u)};
    if (size < 0x1p-14f) {
      // Subnormal: an integer count of 2**-24; a count of 1024 is the smallest normal's own encoding.
      const auto count = static_cast<std::uint32_t>(std::nearbyint(size * 0x1p24f));
      return {static_cast<std::uint16_t>(sign | count)};
    }
    const std::uint32_t wide = bits_of(size) - (112u << 23);  // exponent bias 127 -> 15
    const std::uint32_t tie = (wide >> 13) & 1u;
    return {static_cast<std::uint16_t>(sign | ((wide + 0x0FFFu + tie) >> 13))};
  }

  float value() const {
    const float sign = (bits & 0x8000u) != 0 ? -1.0f : 1.0f;
    const std::uint32_t exponent = (bits >> 10) & 0x1Fu;
    const std::uint32_t fraction = bits & 0x03FFu;
    if (exponent == 0) return sign * static_cast<float>(fraction) * 0x1p-24f;
    const std::uint32_t wide_exponent = exponent == 0x1Fu ? 0xFFu : exponent + 112u;
    return sign * float_of((wide_exponent << 23) | (fraction << 13));
  }
};

struct Fp32 {
  float number;

  static Fp32 from(float value) { return {value}; }

  float value() const { return number; }
};

static_assert(sizeof(Fp32) == 4 && sizeof(Fp16) == 2 && sizeof(Bf16) == 2, "layouts are the GPU's");

}  // namespace kfr
