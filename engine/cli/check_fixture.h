/* check_fixture.h - tries a plugin's model family on a small file of its own weights: what its network asks of them,
 * and what it computes in f32 and in bf16. Runs in a process of its own.
 */
#ifndef KILN_CLI_CHECK_FIXTURE_H
#define KILN_CLI_CHECK_FIXTURE_H

#include "cli/check_report.h"
#include "kiln/model.h"
#include "plugin/ctx.h"

/* 1: the family takes the file for its own, and it was tried. ctx has the CPU's runtime. */
int check_fixture(const kiln_model_family *row, const char *path, kiln_ctx *ctx, check_counts *c);

#endif
