// Devices, memory and error texts: the CUDA runtime behind the plain C ABI. Host code only.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernforge_rmsnorm.h"

namespace {

// Passes a status on and takes it off the runtime's "last error", which belongs to the caller's other libraries.
std::int32_t settled(cudaError_t status) {
  if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
  return status;
}

}  // namespace

extern "C" {

std::int32_t kfr_device_count(std::int32_t *count) {
  if (count == nullptr) return KFR_BAD_POINTER;
  *count = 0;
  int found = 0;
  const cudaError_t status = cudaGetDeviceCount(&found);
  if (status == cudaSuccess) *count = found;
  if (status == cudaErrorNoDevice) return settled(status), KFR_OK;
  if (status == cudaErrorInsufficientDriver) {
    // The runtime says "insufficient" both of a driver that is too old and of none at all; version 0 means none.
    int version = 0;
    static_cast<void>(cudaGetLastError());
    if (cudaDriverGetVersion(&version) == cudaSuccess && version == 0) return KFR_OK;
  }
  return settled(status);
}

std::int32_t kfr_device_capability(std::int32_t device, std::int32_t *major, std::int32_t *minor) {
  if (major == nullptr || minor == nullptr) return KFR_BAD_POINTER;
  const cudaError_t status = cudaDeviceGetAttribute(major, cudaDevAttrComputeCapabilityMajor, device);
  if (status != cudaSuccess) return settled(status);
  return settled(cudaDeviceGetAttribute(minor, cudaDevAttrComputeCapabilityMinor, device));
}

std::int32_t kfr_allocate(void **pointer, std::int64_t bytes) {
  if (pointer == nullptr) return KFR_BAD_POINTER;
  if (bytes < 0) return KFR_BAD_SHAPE;
  return settled(cudaMalloc(pointer, static_cast<std::size_t>(bytes)));
}

std::int32_t kfr_free(void *pointer) { return settled(cudaFree(pointer)); }

std::int32_t kfr_copy_to_device(void *device, const void *host, std::int64_t bytes) {
  if (bytes < 0) return KFR_BAD_SHAPE;
  return settled(cudaMemcpy(device, host, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice));
}

std::int32_t kfr_copy_to_host(void *host, const void *device, std::int64_t bytes) {
  if (bytes < 0) return KFR_BAD_SHAPE;
  return settled(cudaMemcpy(host, device, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost));
}

std::int32_t kfr_synchronize(void *stream) {
  return settled(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
}

const char *kfr_cuda_error_name(std::int32_t status) {
  return cudaGetErrorName(static_cast<cudaError_t>(status));
}

const char *kfr_cuda_error_text(std::int32_t status) {
  return cudaGetErrorString(static_cast<cudaError_t>(status));
}

}  // extern "C"
