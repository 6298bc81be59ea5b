// The whole C ABI of libkernforge_rmsnorm.so. Plain C types only, so that ctypes, cffi or any language binds it.
//
// Every function returns a status: 0 success, a positive number a cudaError_t as CUDA numbers it, a negative
// number one of the KFR_ faults below. Arrays are dense and row-major. "host" and "device" say where a pointer
// must point. GPU functions only enqueue work on `stream` (null: the default stream) and do not wait for it.
#ifndef KERNFORGE_RMSNORM_H
#define KERNFORGE_RMSNORM_H

#include <stdint.h>

#if defined(__GNUC__)
#define KFR_API __attribute__((visibility("default")))
#else
#define KFR_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum { KFR_FP32 = 0, KFR_FP16 = 1, KFR_BF16 = 2 };

enum {
  KFR_OK = 0,
  KFR_BAD_SHAPE = -1,   // a count is negative, zero where it must not be, or too large to launch
  KFR_BAD_DTYPE = -2,   // none of KFR_FP32, KFR_FP16, KFR_BF16
  KFR_BAD_POINTER = -3  // a required pointer is null, or on the GPU not aligned to its elements
};

// out = x * rsqrt(mean(x * x) + epsilon) * weight for each row, where x = input, or, when `residual` is not
// null, x = input + residual rounded to the element type; that x is then also written back to `residual`, so
// the fused call equals an addition followed by the plain call. Sums are kept in at least fp32.
// input, out, residual: [rows, hidden]; weight: [hidden]; all of one element type. out may be input.
typedef struct {
  void *out;
  void *residual;
  const void *input;
  const void *weight;
  int64_t rows;
  int64_t hidden;
  float epsilon;
  int32_t dtype;
} kfr_rmsnorm_args;

KFR_API int32_t kfr_rmsnorm_cpu(const kfr_rmsnorm_args *args);                // host pointers
KFR_API int32_t kfr_rmsnorm(const kfr_rmsnorm_args *args, void *stream);      // device pointers

// Greedy verification of drafted token trees, one tree a request. Node 0 is the root: the last token that is
// already accepted, so its draft token is not read. From a node the walk goes to the first child (in sibling
// order) whose draft token equals the target model's own choice after that node, and stops where none does.
// draft_tokens, first_child, next_sibling, target_tokens: [batch, nodes]; links hold node indices, -1 for none.
// path: [batch, max_path], the accepted nodes in order without the root, filled up with -1.
// count: [batch], the length of that path, or -1 where the walk's links leave the tree or go round in a circle.
// next_token: [batch], the target's choice after the last node of the path, or -1 beside count -1.
// A path is cut after max_path nodes; max_path = nodes - 1 never cuts one.
typedef struct {
  int32_t *path;
  int32_t *count;
  int32_t *next_token;
  const int32_t *draft_tokens;
  const int32_t *first_child;
  const int32_t *next_sibling;
  const int32_t *target_tokens;
  int64_t batch;
  int64_t nodes;
  int64_t max_path;
} kfr_verify_tree_args;

KFR_API int32_t kfr_verify_tree_cpu(const kfr_verify_tree_args *args);              // host pointers
KFR_API int32_t kfr_verify_tree(const kfr_verify_tree_args *args, void *stream);    // device pointers

// The few services of the CUDA runtime that a caller without torch needs.
KFR_API int32_t kfr_device_count(int32_t *count);  // 0 and success where no driver or no GPU is present
KFR_API int32_t kfr_device_capability(int32_t device, int32_t *major, int32_t *minor);
KFR_API int32_t kfr_allocate(void **pointer, int64_t bytes);
KFR_API int32_t kfr_free(void *pointer);
KFR_API int32_t kfr_copy_to_device(void *device, const void *host, int64_t bytes);
KFR_API int32_t kfr_copy_to_host(void *host, const void *device, int64_t bytes);
KFR_API int32_t kfr_synchronize(void *stream);

// The words of a status. Static strings, never null.
KFR_API const char *kfr_fault_text(int32_t status);       // of a negative one
KFR_API const char *kfr_cuda_error_name(int32_t status);  // of a positive one
KFR_API const char *kfr_cuda_error_text(int32_t status);

#ifdef __cplusplus
}
#endif

#endif
