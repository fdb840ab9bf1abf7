/* test_cuda_vendor_gaps.c - libraries that are called as NVIDIA's are and lack a function, each one in turn; are too
 * old; or do not start: they are refused by their file's name, and for what they are. The libraries are made here.
 */
#include "backend/cuda/cublaslt.h"
#include "backend/cuda/cudnn.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const lt_functions[] = {"cublasLtGetVersion",
                                           "cublasLtCreate",
                                           "cublasLtMatmul",
                                           "cublasLtMatmulDescCreate",
                                           "cublasLtMatmulDescDestroy",
                                           "cublasLtMatmulDescSetAttribute",
                                           "cublasLtMatrixLayoutCreate",
                                           "cublasLtMatrixLayoutDestroy",
                                           "cublasLtMatmulPreferenceCreate",
                                           "cublasLtMatmulPreferenceDestroy",
                                           "cublasLtMatmulPreferenceSetAttribute",
                                           "cublasLtMatmulAlgoGetHeuristic"};
static const char *const dnn_functions[] = {"cudnnGetVersion",
                                            "cudnnGetErrorString",
                                            "cudnnCreate",
                                            "cudnnSetStream",
                                            "cudnnCreateTensorDescriptor",
                                            "cudnnSetTensor4dDescriptorEx",
                                            "cudnnDestroyTensorDescriptor",
                                            "cudnnCreateFilterDescriptor",
                                            "cudnnSetFilter4dDescriptor",
                                            "cudnnDestroyFilterDescriptor",
                                            "cudnnCreateConvolutionDescriptor",
                                            "cudnnSetConvolution2dDescriptor",
                                            "cudnnSetConvolutionMathType",
                                            "cudnnDestroyConvolutionDescriptor",
                                            "cudnnGetConvolutionForwardAlgorithm_v7",
                                            "cudnnGetConvolutionForwardWorkspaceSize",
                                            "cudnnConvolutionForward"};
enum { N_LT = sizeof lt_functions / sizeof lt_functions[0], N_DNN = sizeof dnn_functions / sizeof dnn_functions[0] };

static char made[600];

/* A library of all functions but one, of that version; the one that creates a handle gives `created`. */
static int make_library(const char *const *name, size_t n, size_t without, long version, int created)
{
    static int number;
    char line[2000], source[600];
    snprintf(source, sizeof source, "%s/%d.c", test_folder(), ++number);
    snprintf(made, sizeof made, "%s/gap-%d.so", test_folder(), number);
    FILE *f = fopen(source, "w");
    if (!f) return 0;
    for (size_t i = 0; i < n; i++) {
        if (i == without) continue;
        if (strstr(name[i], "GetErrorString"))
            fprintf(f, "const char *%s(int s) { return s == 7 ? \"seven\" : \"?\"; }\n", name[i]);
        else
            fprintf(f, "long %s(void) { return %ld; }\n", name[i],
                    strstr(name[i], "GetVersion")                                                   ? version
                    : strcmp(name[i], "cublasLtCreate") == 0 || strcmp(name[i], "cudnnCreate") == 0 ? (long)created
                                                                                                    : 0L);
    }
    int well = fclose(f) == 0;
    snprintf(line, sizeof line, "cc -w -shared -fPIC '%s' -o '%s'", source, made);
    return CHECK_MSG(well && system(line) == 0, "%s could not be made", made);
}

/* before MADE after */
static void refused(const char *variable, kiln_status (*open)(size_t *, error *), const char *before, const char *after)
{
    char words[900];
    size_t version = 1;
    error e = {0};
    setenv(variable, made, 1);
    CHECK_EQ(open(&version, &e), KILN_ERR_UNSUPPORTED);
    snprintf(words, sizeof words, "%s%s%s", before, made, after);
    CHECK_STR(e.message, words);
}

static void test_cublaslt_lacks_a_function(void)
{
    for (size_t i = 0; i < N_LT; i++)
        if (make_library(lt_functions, N_LT, i, 120000, 0))
            refused("KILN_CUBLASLT", cublaslt_open, "KILN_CUBLASLT: ", ", as cuBLASLt, lacks a function");
}

static void test_cublaslt_is_old_or_does_not_start(void)
{
    if (make_library(lt_functions, N_LT, N_LT, 110000, 0))
        refused("KILN_CUBLASLT", cublaslt_open, "KILN_CUBLASLT: ", ", as cuBLASLt, is older than 12.0");
    if (make_library(lt_functions, N_LT, N_LT, 120000, 3))
        refused("KILN_CUBLASLT", cublaslt_open, "KILN_CUBLASLT: ", ", as cuBLASLt, does not start");
}

static void test_cudnn_lacks_a_function(void)
{
    for (size_t i = 0; i < N_DNN; i++)
        if (make_library(dnn_functions, N_DNN, i, 90000, 0))
            refused("KILN_CUDNN", cudnn_open, "", ", as cuDNN, cannot be used: lacks a function");
}

static void test_cudnn_is_old_or_does_not_start(void)
{
    if (make_library(dnn_functions, N_DNN, N_DNN, 8000, 0))
        refused("KILN_CUDNN", cudnn_open, "", ", as cuDNN, cannot be used: is older than 8.1");
    if (make_library(dnn_functions, N_DNN, N_DNN, 90000, 7))
        refused("KILN_CUDNN", cudnn_open, "", ", as cuDNN, cannot be used: seven");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_cublaslt_lacks_a_function),
                                      CASE(test_cublaslt_is_old_or_does_not_start), CASE(test_cudnn_lacks_a_function),
                                      CASE(test_cudnn_is_old_or_does_not_start)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
