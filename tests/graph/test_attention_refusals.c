/* test_attention_refusals.c - attention whose k and v have fewer heads than q (kv_heads): what fits is recorded with
 * its shape, each operand that does not is refused with the shapes that differ.
 */
#include "graph_kit.h"

enum { HEADS = 4 };

static recorder start(recording *r)
{
    error e = {0};
    CHECK_EQ(recording_init(r, "p", KILN_F32, &e), KILN_OK);
    return (recorder){.r = r};
}

static kiln_t attend(recorder *c, const int64_t *q, const int64_t *k, const int64_t *v, int kv)
{
    return record_op(c->r, OP_ATTENTION, &(op_attr){.attention = {.heads = HEADS, .kv_heads = kv, .scale = 1}},
                     (const kiln_t[]){record_input(c->r, "q", KILN_F32, 3, q),
                                      record_input(c->r, "k", KILN_F32, 3, k),
                                      record_input(c->r, "v", KILN_F32, 3, v),
                                      {0}},
                     4);
}

static void fits(const int64_t *q, const int64_t *k, const int64_t *v, int kv, const char *want)
{
    recording r;
    recorder c = start(&r);
    char have[80];
    kiln_t made = attend(&c, q, k, v, kv);
    CHECK_MSG(made.id != 0, "%s", r.failure.message);
    CHECK_STR(shape_text(put_shape(&c, made), have), want);
    recording_free(&r);
}

static void refused(const int64_t *q, const int64_t *k, const int64_t *v, int kv, const char *says)
{
    recording r;
    recorder c = start(&r);
    CHECK_EQ(attend(&c, q, k, v, kv).id, 0);
    CHECK_EQ(r.failure.status, KILN_ERR_INVALID);
    CHECK_MSG(strstr(r.failure.message, says) != NULL, "'%s' does not say '%s'", r.failure.message, says);
    recording_free(&r);
}

static void test_fewer_heads_of_k_and_v_fit(void)
{
    fits(DIMS(2, 5, 8), DIMS(2, 3, 8), DIMS(2, 3, 8), 4, "[2,5,8]");
    fits(DIMS(2, 5, 8), DIMS(2, 3, 4), DIMS(2, 3, 4), 2, "[2,5,8]");
    fits(DIMS(2, 5, 8), DIMS(2, 3, 2), DIMS(2, 3, 2), 1, "[2,5,8]");
    fits(DIMS(2, 5, 8), DIMS(2, 3, 4), DIMS(2, 3, 6), 2, "[2,5,12]"); /* v is wider than k */
}

static void test_what_does_not_fit(void)
{
    refused(DIMS(2, 5, 8), DIMS(2, 3, 8), DIMS(2, 3, 4), 2, "batch or width");
    refused(DIMS(2, 5, 8), DIMS(2, 3, 2), DIMS(2, 3, 4), 2, "batch or width");
    refused(DIMS(2, 5, 8), DIMS(1, 3, 4), DIMS(1, 3, 4), 2, "batch or width");
    refused(DIMS(2, 5, 8), DIMS(1, 3, 8), DIMS(1, 3, 8), 4, "batch or width");
    refused(DIMS(2, 5, 8), DIMS(2, 3, 4), DIMS(2, 4, 4), 2, "k and v differ");
    refused(DIMS(2, 5, 8), DIMS(2, 3, 4), DIMS(1, 3, 4), 2, "k and v differ");
    refused(DIMS(2, 5, 8), DIMS(2, 3, 6), DIMS(2, 3, 6), 3, "4 heads of q and 3 of k and v");
    refused(DIMS(2, 5, 8), DIMS(2, 3, 4), DIMS(2, 3, 5), 2, "4 heads of q and 2 of k and v");
    refused(DIMS(2, 5, 6), DIMS(2, 3, 6), DIMS(2, 3, 6), 4, "4 heads");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_fewer_heads_of_k_and_v_fit), CASE(test_what_does_not_fit)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
