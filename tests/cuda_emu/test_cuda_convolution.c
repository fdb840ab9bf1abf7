/* test_cuda_convolution.c - test_cuda_library.c with convolutions, by engine/backend/cuda/cudnn.c and cuDNN's
 * stand-in (fake_cudnn.c). */
#define PICTURES 1
#include "test_cuda_library.c"
