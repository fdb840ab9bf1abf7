/* ops_level.h - the table of ops (test_ops_table.h) at one level of the processor against the plain reference, in f32,
 * bf16 and f16 storage, dense and with distance between rows, with operands of two types as regions of precision make
 * them, with f16 that saturates, with 1 to 4 threads, which must give the same bytes.
 */
#ifndef KILN_TESTS_OPS_LEVEL_H
#define KILN_TESTS_OPS_LEVEL_H

/* Runs the table (or the rows whose name begins with `prefix`) in a child at `level`, since a process chooses its level
 * once; how many failed. products: KILN_CPU_GEMM. blocks: how weights that are stored by blocks are multiplied under
 * bf16. */
int ops_run_level(const char *level, const char *products, const char *blocks, const char *prefix);
/* Asked of the processor, so that this process chooses no level. */
int ops_machine_has(const char *level);

#endif
