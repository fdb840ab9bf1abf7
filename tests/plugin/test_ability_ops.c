/* test_ability_ops.c - "kiln.ops/1" as a plugin sees it: through the table, with a running call. */
#include "harness.h"
#include "rig.h"

#include <math.h>
#include <string.h>

static const kiln_ops *ops(void) { return rig_host()->ability(KILN_OPS_ABILITY); }

static kiln_bind bind_to(const char *name, float *data, uint32_t rank, const int64_t *dim)
{
    return (kiln_bind)KILN_BIND(
        name,
        {.size = sizeof(kiln_tensor), .dtype = KILN_F32, .device = KILN_CPU, .rank = rank, .dim = dim, .data = data});
}

static void expect(kiln_status status, kiln_status wanted, const char *says)
{
    CHECK_MSG(status == wanted && strstr(rig_message(), says), "status %s, \"%s\"; wanted %s and \"%s\"",
              status_name(status), rig_message(), status_name(wanted), says);
}

/* What the head of ops.h shows, with numbers that can be counted in the head. */
static void test_a_program_from_recording_to_result(void)
{
    const kiln_ops *o = ops();
    float x[18], eps[2] = {0}, w[18], bias[2] = {1, -1};
    for (int i = 0; i < 18; i++) x[i] = 1, w[i] = i < 9 ? 1.0f : 2.0f; /* [O 2, I 1, 3, 3] */
    kiln_program *p =
        o->program_new(rig_ctx(), &(kiln_program_options){.size = sizeof(kiln_program_options), .name = "unet"});
    REQUIRE(p);
    kiln_t in = o->input(p, "x", KILN_F32, 4, KILN_DIMS(1, 3, 3, 1));
    kiln_t h =
        o->conv2d(p, in, o->constant(p, w, 4, KILN_DIMS(2, 1, 3, 3)), o->constant(p, bias, 1, KILN_DIMS(2)), NULL);
    int64_t dim[4], few[2] = {-1, -1};
    CHECK(o->shape(p, h, dim, 4) == 4 && dim[1] == 1 && dim[2] == 1 && dim[3] == 2);
    CHECK(o->shape(p, h, few, 1) == 4 && few[0] == 1 && few[1] == -1); /* no more than there is room for */
    o->output(p, "eps", h);
    kiln_program_info info = {.size = sizeof info};
    CHECK_EQ(o->plan(rig_ctx(), p, &info), KILN_OK);
    CHECK(info.n_recorded == 4 && info.n_planned == 1 && info.flops == 36 && info.arena_bytes == 64);
    kiln_bind from = bind_to("x", x, 4, KILN_DIMS(1, 3, 3, 1)), to = bind_to("eps", eps, 4, KILN_DIMS(1, 1, 1, 2));
    CHECK_EQ(o->run(rig_ctx(), p, &from, 1, &to, 1), KILN_OK);
    CHECK(eps[0] == 10 && eps[1] == 17);
    o->program_free(p);
}

static kiln_program *fresh(void)
{
    return ops()->program_new(rig_ctx(), &(kiln_program_options){.size = sizeof(kiln_program_options), .name = "p"});
}

static void no_options(kiln_program *p, int which)
{
    const kiln_ops *o = ops();
    kiln_t x = o->input(p, "x", KILN_F32, 3, KILN_DIMS(1, 4, 8)), t = o->input(p, "t", KILN_F32, 1, KILN_DIMS(2));
    switch (which) {
    case 0: o->attention(p, x, x, x, NULL); break;
    case 1: o->timestep_embedding(p, t, 8, NULL); break;
    case 2: o->permute(p, x, NULL); break;
    case 3: o->concat(p, NULL, 2, 0); break;
    case 4: o->attention(p, x, x, x, &(kiln_attention){.size = sizeof(kiln_attention)}); break;
    case 5: o->weight(p, NULL, "w", 1, KILN_DIMS(1)); break;
    case 6: o->reshape(p, (kiln_t){99}, 1, KILN_DIMS(1)); break;
    default: o->fail(p, "the config has %d levels", 9); break;
    }
}

static void test_a_recorders_mistakes_come_back_from_plan(void)
{
    static const char *const says[] = {
        "options (heads)", "timestep_embedding without", "permute without", "concat of nothing", "0 heads",
        "of no set",       "reshape: operand 0",         "9 levels"};
    for (int i = 0; i < 8; i++) {
        kiln_program *p = fresh();
        const char *message = "";
        REQUIRE(p);
        ops()->scope_push(p, "mid");
        no_options(p, i);
        CHECK(ops()->error(p, &message) != KILN_OK && strstr(message, says[i]) != NULL);
        expect(ops()->plan(rig_ctx(), p, NULL), KILN_ERR_INVALID, says[i]);
        CHECK_MSG(strstr(rig_message(), "program 'p', at mid") != NULL, "%s", rig_message());
        CHECK_EQ(ops()->run(rig_ctx(), p, NULL, 0, NULL, 0), KILN_ERR_BUG);
        ops()->program_free(p);
    }
}

static void test_what_a_program_cannot_be_is_refused(void)
{
    kiln_program_options o = {.size = sizeof o, .precision = KILN_F16};
    CHECK(ops()->program_new(rig_ctx(), &o) == NULL);
    CHECK_MSG(strstr(rig_message(), "computes in f32 or bf16"), "%s", rig_message());
    o = (kiln_program_options){.size = sizeof o, .precision = KILN_U8};
    CHECK(ops()->program_new(rig_ctx(), &o) == NULL);
    CHECK_MSG(strstr(rig_message(), "f32, bf16 or f16"), "%s", rig_message());
    o = (kiln_program_options){.size = sizeof o, .device = 77};
    CHECK(ops()->program_new(rig_ctx(), &o) == NULL);
    CHECK_MSG(strstr(rig_message(), "computes on 'cpu'"), "%s", rig_message());
    kiln_program *p = ops()->program_new(rig_ctx(), NULL); /* all options have a default */
    CHECK(p != NULL);
    ops()->program_free(p);
    ops()->program_free(NULL);
}

/* The same calls whether programs run on the host or on a device. */
static void test_vector_ops_where_programs_run(void)
{
    const kiln_ops *o = ops();
    kiln_ctx *c = rig_ctx();
    uint32_t device = o->device(c);
    const float one[3] = {1, 2, -3}, two[3] = {10, 0, 0.5f};
    float *x = rig_host()->scratch(c, sizeof one, device), *y = rig_host()->scratch(c, sizeof one, device),
          back[3] = {0};
    double norm = 0;
    REQUIRE(x && y);
    CHECK(o->upload(c, x, one, 3) == KILN_OK && o->upload(c, y, two, 3) == KILN_OK);
    CHECK_EQ(o->combine(c, x, 3, 2, (const double[]){2, -1}, (const float *const[]){x, y}), KILN_OK);
    CHECK(o->download(c, back, x, 3) == KILN_OK && back[0] == -8 && back[1] == 4 && back[2] == -6.5f);
    CHECK(o->norm(c, y, 3, &norm) == KILN_OK && fabs(norm * norm * 3 - 100.25) < 1e-12);
    CHECK_EQ(o->combine(c, x, 3, 0, NULL, NULL), KILN_OK);
    CHECK(o->download(c, back, x, 3) == KILN_OK && back[0] == 0 && back[1] == 0 && back[2] == 0);
    CHECK_EQ(o->combine(c, x, 3, KILN_MAX_TERMS + 1, NULL, NULL), KILN_ERR_INVALID);
    CHECK(o->upload(c, x, one, 3) == KILN_OK);
    CHECK_EQ(o->add_difference(
                 c, &(kiln_difference){.size = sizeof(kiln_difference), .n = 3, .x = x, .a = y, .b = x, .t = 0.5}, x),
             KILN_OK);
    CHECK(o->download(c, back, x, 3) == KILN_OK && back[0] == 5.5f && back[1] == 1 && back[2] == -1.25f);
    double dot = 0;
    CHECK_EQ(o->dot(c,
                    &(kiln_dot){.size = sizeof(kiln_dot),
                                .n = 3,
                                .terms = 2,
                                .a = (const double[]){1, 1},
                                .b = (const double[]){0, 2},
                                .shift = 1,
                                .x = (const float *const[]){x, y}},
                    &dot),
             KILN_OK);
    CHECK_EQ(dot, 16.5 * 21 + 2 * 1 + 0.25 * 2);
    CHECK_EQ(o->dot(c, &(kiln_dot){.size = sizeof(kiln_dot), .n = 3, .x = (const float *const[]){x}, .a = &norm}, &dot),
             KILN_ERR_INVALID);
    CHECK(rig_host()->scratch(rig_ctx(), 64, 1u << 7) == NULL); /* a device that there is not */
    CHECK_MSG(strstr(rig_message(), "kiln_ops.device()"), "%s", rig_message());
}

/* One picture of 2x2 cells of one channel; the part is its right column. */
static void test_vector_ops_on_parts_of_pictures(void)
{
    const kiln_ops *o = ops();
    kiln_ctx *c = rig_ctx();
    const float start[4] = {1, 2, 3, 4}, half[4] = {0, 0.5f, 1, 1}, weight[2] = {2, 0};
    float *v[4], back[4];
    for (int k = 0; k < 4; k++) {
        REQUIRE((v[k] = rig_host()->scratch(c, sizeof start, o->device(c))) != NULL);
        CHECK_EQ(o->upload(c, v[k], k == 1 ? half : start, 4), KILN_OK);
    }
    kiln_blend blend = {
        .size = sizeof blend, .pictures = 1, .cells = 4, .channels = 1, .masks = 1, .a = v[0], .b = v[1], .mask = v[1]};
    CHECK_EQ(o->blend(c, &blend, v[2]), KILN_OK);
    CHECK(o->download(c, back, v[2], 4) == KILN_OK && back[0] == 0 && back[1] == 1.25f && back[2] == 3 && back[3] == 4);
    kiln_area area = {sizeof area, 1, 2, 2, 1, 0, 1, 2, 1};
    CHECK_EQ(o->crop(c, &area, v[0], v[2]), KILN_OK);
    CHECK(o->download(c, back, v[2], 2) == KILN_OK && back[0] == 2 && back[1] == 4);
    CHECK_EQ(o->combine(c, v[3], 4, 0, NULL, NULL), KILN_OK);
    CHECK_EQ(o->upload(c, v[1], weight, 2), KILN_OK);
    CHECK_EQ(o->accumulate(c, &area,
                           &(kiln_part){.size = sizeof(kiln_part), .data = v[2], .weight = v[1], .weights = 1}, v[0],
                           v[3]),
             KILN_OK);
    CHECK_EQ(o->divide(c, v[0], v[3], 4, 1), KILN_OK);
    CHECK(o->download(c, back, v[0], 4) == KILN_OK && back[0] == 1 && back[1] == 3 && back[2] == 3 && back[3] == 4);
    area.y = 1; /* two rows from row 1 on, of two */
    CHECK_EQ(o->crop(c, &area, v[0], v[2]), KILN_ERR_INVALID);
    CHECK_EQ(o->accumulate(c, &area, &(kiln_part){.size = sizeof(kiln_part), .data = v[2]}, v[0], v[3]),
             KILN_ERR_INVALID);
    CHECK_MSG(strstr(rig_message(), "outside"), "%s", rig_message());
}

static void test_a_program_is_for_the_device_of_the_run(void)
{
    kiln_program_options here = {.size = sizeof here, .device = KILN_CPU},
                         there = {.size = sizeof there, .device = KILN_CUDA};
    kiln_program *p = ops()->program_new(rig_ctx(), &here);
    CHECK(p != NULL);
    ops()->program_free(p);
    CHECK(ops()->program_new(rig_ctx(), &there) == NULL);
    CHECK_MSG(strstr(rig_message(), "computes on"), "%s", rig_message());
}

static void test_a_kept_program_is_ready_the_second_time(void)
{
    const kiln_ops *o = ops();
    int is_fresh = 0;
    float x = 3, y = 0;
    for (int i = 0; i < 2; i++) {
        kiln_program *p = o->program_keep(rig_ctx(), "test/kept", NULL, &is_fresh);
        REQUIRE(p);
        CHECK_EQ(is_fresh, i == 0);
        if (is_fresh) {
            o->output(p, "y", o->affine(p, o->input(p, "x", KILN_F32, 1, KILN_DIMS(1)), 2, 1));
            CHECK_EQ(o->plan(rig_ctx(), p, NULL), KILN_OK);
        }
        kiln_bind in = bind_to("x", &x, 1, KILN_DIMS(1)), out = bind_to("y", &y, 1, KILN_DIMS(1));
        CHECK_EQ(o->run(rig_ctx(), p, &in, 1, &out, 1), KILN_OK);
        CHECK_EQ((int)y, 7);
        o->program_free(p);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_a_program_from_recording_to_result),      CASE(test_a_recorders_mistakes_come_back_from_plan),
        CASE(test_what_a_program_cannot_be_is_refused),     CASE(test_vector_ops_where_programs_run),
        CASE(test_vector_ops_on_parts_of_pictures),         CASE(test_a_program_is_for_the_device_of_the_run),
        CASE(test_a_kept_program_is_ready_the_second_time),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
