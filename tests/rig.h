/* rig.h - the engine for tests that call a plugin's C functions directly: the real host table, and tensor programs on
 * the CPU backend (KILN_TEST_BACKEND=reference: plain C; =cuda: the library that KILN_CUDA_LIBRARY names). One call at
 * a time. */
#ifndef KILN_TESTS_RIG_H
#define KILN_TESTS_RIG_H

#include "backend/cuda_load.h"
#include "backend/runtime.h"
#include "kiln/model.h"
#include "plugin/ctx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static runtime *rig_runtime;
static call_environment rig_environment;
static kiln_ctx rig_call;

static inline void rig_close(void)
{
    arena_free(&rig_call.scratch);
    runtime_free(rig_runtime);
}

static inline const kiln_host *rig_host(void) { return &engine_host; }

/* A new call, without the last one's error and scratch memory. */
static inline kiln_ctx *rig_ctx(void)
{
    if (!rig_runtime) {
        const char *name = getenv("KILN_TEST_BACKEND");
        error e = {0};
        const backend *b = name && strcmp(name, "cuda") == 0 ? cuda_backend(&e) : backend_find(name ? name : "cpu");
        rig_runtime =
            b ? runtime_new(
                    &(runtime_setting){.backend = b, .threads = 2, .precision = KILN_F32, .host_memory = SIZE_MAX}, &e)
              : NULL;
        if (!rig_runtime) {
            fprintf(stderr, "no runtime: %s\n", e.message);
            exit(1);
        }
        rig_environment = (call_environment){.runtime = rig_runtime, .pool = runtime_pool(rig_runtime)};
        atexit(rig_close);
    }
    arena_free(&rig_call.scratch);
    rig_call = (kiln_ctx){.env = &rig_environment, .node_name = "test", .node_type = "test", .plugin = "test"};
    return &rig_call;
}

/* Why the last call failed. */
static inline const char *rig_message(void) { return rig_call.failure.message; }

#endif
