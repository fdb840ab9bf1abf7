/* test_latent_tools.c - operations on latents against ComfyUI's (tests/golden/comfy_nodes.safetensors), batches of
 * another size, and .latent files as ComfyUI writes them.
 *
 * Tolerance: ComfyUI computes in f32; its sums of 108 products of numbers up to 8 are off by a few ulps of those.
 */
#include "image/golden_value.h"

#include "latent.h"

#include <math.h>

#define SUMS 2e-5

static kiln_value *golden_value(const char *name) { return golden_of("comfy_nodes.safetensors", name); }

static kiln_value *latent_of(kiln_value *samples)
{
    kiln_value *v = value_api.new_map(NULL);
    CHECK(value_api.map_set(v, "samples", samples) == KILN_OK);
    value_unref(samples);
    return v;
}

static kiln_tensor samples_of(const kiln_value *latent) { return view_of(value_api.map_get(latent, "samples")); }

static double apart(kiln_tensor a, kiln_tensor b)
{
    double worst = 0;
    size_t n = 1;
    for (uint32_t i = 0; i < a.rank; i++) {
        if (a.dim[i] != b.dim[i]) return INFINITY;
        n *= (size_t)a.dim[i];
    }
    for (size_t i = 0; i < n; i++)
        worst = fmax(worst, fabs((double)((const float *)a.data)[i] - (double)((const float *)b.data)[i]));
    return worst;
}

static void check_operation(const kiln_node *type, const char *settings, const char *name)
{
    made operation = node_with(type, settings, NULL, NULL, NULL);
    kiln_value *latent = latent_of(golden_value("l")), *wanted = golden_value(name);
    made m = node_run(&node_latent_apply, NULL, latent, operation.out[0]);
    if (CHECK_MSG(m.status == KILN_OK, "%s", m.why.message)) {
        double worst = apart(samples_of(m.out[0]), view_of(wanted));
        CHECK_MSG(worst <= SUMS, "%s: off by %g", name, worst);
    }
    made_free(&m), made_free(&operation);
    value_unref(latent), value_unref(wanted);
}

static void test_operations(void)
{
    check_operation(&node_latent_sharpen, "sharpen_radius=4; sigma=0.7; alpha=0.3", "LatentOperationSharpen");
    check_operation(&node_latent_tonemap, "multiplier=0.8", "LatentOperationTonemapReinhard");
    made operation = node_with(&node_latent_sharpen, "sharpen_radius=10", NULL, NULL, NULL);
    kiln_value *latent = latent_of(golden_value("l"));
    made m = node_run(&node_latent_apply, NULL, latent, operation.out[0]);
    refused(&m, KILN_ERR_INVALID, "take a radius below both");
    made_free(&operation);
    value_unref(latent);

    kiln_value *none = latent_of(tensor_of(4, (const int64_t[]){0, 2, 2, 4}, NULL, NULL));
    operation = node_with(&node_latent_tonemap, "multiplier=1", NULL, NULL, NULL);
    m = node_run(&node_latent_apply, NULL, none, operation.out[0]);
    CHECK_MSG(m.status == KILN_OK && samples_of(m.out[0]).dim[0] == 0, "%s", m.why.message);
    made_free(&m), made_free(&operation);
    value_unref(none);
}

static int64_t number_at(const kiln_value *latent, size_t i)
{
    int64_t n = -1;
    value_api.get_int(value_api.list_at(value_api.map_get(latent, "batch_index"), i), &n);
    return n;
}

static void test_batches(void)
{
    kiln_value *two = latent_of(golden_value("l")), *one = latent_of(golden_value("k")),
               *list = value_api.new_list(NULL);
    value_api.list_push(list, two), value_api.list_push(list, one), value_api.list_push(list, two);
    made m = node_run(&node_batch_latents, NULL, list, NULL);
    if (CHECK_MSG(m.status == KILN_OK, "%s", m.why.message)) {
        kiln_tensor all = samples_of(m.out[0]);
        size_t picture = 12 * 10 * 4;
        CHECK(all.dim[0] == 5);
        CHECK(memcmp((float *)all.data + 2 * picture, samples_of(one).data, picture * sizeof(float)) == 0);
        CHECK(memcmp((float *)all.data + 3 * picture, samples_of(two).data, 2 * picture * sizeof(float)) == 0);
        CHECK(number_at(m.out[0], 2) == 0 && number_at(m.out[0], 4) == 1);
    }
    made_free(&m);
    m = node_with(&node_rebatch_latents, "batch_size=3", list, NULL, NULL);
    if (CHECK_MSG(m.status == KILN_OK, "%s", m.why.message)) {
        CHECK_EQ(value_api.count(m.out[0]), 2);
        CHECK_EQ(samples_of(value_api.list_at(m.out[0], 0)).dim[0], 3);
        CHECK_EQ(samples_of(value_api.list_at(m.out[0], 1)).dim[0], 2);
        CHECK(number_at(value_api.list_at(m.out[0], 0), 2) == 0);
    }
    made_free(&m);
    static const float ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    kiln_value *mask = MASK_OF(1, 4, 4, ones, NULL); /* one with a mask cannot be of a batch with those without */
    kiln_value *masked = value_api.map_copy(NULL, one);
    value_api.map_set(masked, "noise_mask", mask);
    value_api.list_push(list, masked);
    m = node_run(&node_batch_latents, NULL, list, NULL);
    refused(&m, KILN_ERR_INVALID, "not of one size");
    m = node_with(&node_rebatch_latents, "batch_size=100", list, NULL, NULL);
    CHECK(m.status == KILN_OK && value_api.count(m.out[0]) == 2);
    CHECK(value_api.map_get(value_api.list_at(m.out[0], 1), "noise_mask") != NULL);
    made_free(&m);
    value_unref(mask), value_unref(masked), value_unref(list), value_unref(one), value_unref(two);
}

static void test_trimming(void)
{
    float *into;
    kiln_value *v = latent_of(tensor_of(5, (const int64_t[]){2, 3, 1, 1, 2}, NULL, &into));
    for (int i = 0; i < 12; i++) into[i] = (float)i;
    made m = node_with(&node_trim_video, "trim_amount=1", v, NULL, NULL);
    if (CHECK_MSG(m.status == KILN_OK, "%s", m.why.message)) {
        static const float wanted[] = {2, 3, 4, 5, 8, 9, 10, 11};
        CHECK(samples_of(m.out[0]).dim[1] == 2 && memcmp(samples_of(m.out[0]).data, wanted, sizeof wanted) == 0);
    }
    made_free(&m);
    m = node_with(&node_trim_video, "trim_amount=3", v, NULL, NULL);
    refused(&m, KILN_ERR_INVALID, "has no 3 frames to spare");
    value_unref(v);
}

/* ---- files ---- */

static made load(const char *path) { return node_run(&node_load_latent, &(const char *){path}, NULL, NULL); }

static void test_files_come_back(void)
{
    static const uint32_t ranks[] = {3, 4, 5};
    node_text[0] = "{\"a\": \"b\\\"\"}";
    for (int i = 0; i < 3; i++) {
        static const int64_t dims[3][5] = {{2, 7, 4}, {2, 3, 5, 4}, {1, 2, 3, 5, 4}};
        float *into;
        size_t n = 1;
        for (uint32_t k = 0; k < ranks[i]; k++) n *= (size_t)dims[i][k];
        kiln_value *v = latent_of(tensor_of(ranks[i], dims[i], NULL, &into));
        for (size_t k = 0; k < n; k++) into[k] = (float)k * 0.25f - 3;
        made m = node_with(&node_save_latent, "", v, NULL, NULL);
        CHECK_MSG(m.status == KILN_OK, "%s", m.why.message);
        CHECK_MSG(strstr(node_file, "/latents/ComfyUI_0000") && strstr(node_file, "_.latent"), "%s", node_file);
        made_free(&m);
        m = load(node_file);
        if (CHECK_MSG(m.status == KILN_OK, "%s", m.why.message))
            CHECK_EQ(apart(samples_of(m.out[0]), samples_of(v)), 0.0);
        made_free(&m);
        value_unref(v);
    }
    node_text[0] = NULL;
}

/* The head's length is a multiple of 8, and no blank is more than that takes. */
static void test_a_head_is_as_short_as_it_can_be(void)
{
    char text[40] = "";
    node_text[0] = text;
    for (int i = 0; i < 17; i++) {
        kiln_value *v = latent_of(tensor_of(4, (const int64_t[]){1, 1, 2, 4}, (const float[8]){1}, NULL));
        made m = node_with(&node_save_latent, "", v, NULL, NULL);
        CHECK_MSG(m.status == KILN_OK, "%s", m.why.message);
        unsigned char begin[8], head[2000];
        FILE *f = fopen(node_file, "rb");
        REQUIRE(f && fread(begin, 1, 8, f) == 8);
        size_t n = begin[0] | (size_t)begin[1] << 8, blanks = 0;
        REQUIRE(n < sizeof head && fread(head, 1, n, f) == n);
        while (blanks < n && head[n - 1 - blanks] == ' ') blanks++;
        CHECK_EQ(n % 8, 0);
        CHECK_MSG(blanks < 8, "%zu blanks behind %zu bytes", blanks, n - blanks);
        CHECK(head[n - 1 - blanks] == '}' && fread(head, 1, sizeof head, f) == 8 * sizeof(float));
        fclose(f);
        made_free(&m);
        value_unref(v);
        memset(text, 'x', (size_t)i + 1);
    }
    node_text[0] = NULL;
}

static const char *write_latent(const char *header, size_t header_size, const void *data, size_t n)
{
    static char path[1100];
    unsigned char size[8] = {0};
    snprintf(path, sizeof path, "%s/any.latent", test_folder());
    for (int i = 0; i < 8; i++) size[i] = (unsigned char)(header_size >> 8 * i);
    FILE *f = fopen(path, "wb");
    if (!CHECK(f && fwrite(size, 1, 8, f) == 8 && fwrite(header, 1, strlen(header), f) == strlen(header) &&
               fwrite(data, 1, n, f) == n))
        exit(1);
    fclose(f);
    return path;
}

/* [1,2,1,3], channels second; without the version an older program's, that are multiplied. */
static void test_files_of_comfyui(void)
{
    static const float data[6] = {1, 2, 3, 4, 5, 6}, turned[6] = {1, 4, 2, 5, 3, 6};
    static const char *const version =
        "\"latent_format_version_0\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[24,24]},";
    for (int old = 0; old < 2; old++) {
        char header[300];
        snprintf(header, sizeof header,
                 "{%s\"latent_tensor\":{\"dtype\":\"F32\",\"shape\":[1,2,1,3],\"data_offsets\":[0,24]}}",
                 old ? "" : version);
        made m = load(write_latent(header, strlen(header), data, sizeof data));
        if (!CHECK_MSG(m.status == KILN_OK, "%s", m.why.message)) continue;
        kiln_tensor t = samples_of(m.out[0]);
        CHECK(t.rank == 4 && t.dim[1] == 1 && t.dim[2] == 3 && t.dim[3] == 2);
        for (int i = 0; i < 6; i++)
            CHECK_NEAR(((const float *)t.data)[i], old ? turned[i] / 0.18215f : turned[i], old ? 1e-5 : 0);
        made_free(&m);
    }
}

static void test_files_that_are_none(void)
{
    static const struct {
        const char *header;
        size_t size; /* that it says it has; 0: the right one */
        const char *says;
    } row[] = {
        {"{}", 0, "no 'latent_tensor'"},
        {"{}", 3000, "header does not fit"},
        {"{}", (size_t)-1, "header does not fit"},
        {"[1]", 0, "header is no JSON"},
        {"{\"latent_tensor\":{}}", 0, "no F32"},
        {"{\"latent_tensor\":{\"dtype\":\"F32\",\"shape\":[1,2]}}", 0, "3 to 5 dimensions"},
        {"{\"latent_tensor\":{\"dtype\":\"F32\",\"shape\":[1,2,9,9]}}", 0, "shape does not fit"},
        {"{\"latent_tensor\":{\"dtype\":\"F32\",\"shape\":[1,-2,1,3]}}", 0, "shape does not fit"},
        {"{\"latent_tensor\":{\"dtype\":\"F32\",\"shape\":[16777216,16777216,16777216,16777216]}}", 0, "does not fit"},
        {"{\"latent_tensor\":{\"dtype\":\"F32\",\"shape\":[1,2,1,3],\"data_offsets\":[4,28]}}", 0,
         "data does not fit"}};
    static const float data[6];
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        made m =
            load(write_latent(row[i].header, row[i].size ? row[i].size : strlen(row[i].header), data, sizeof data));
        refused(&m, KILN_ERR_INVALID, row[i].says);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_operations),
                                      CASE(test_batches),
                                      CASE(test_trimming),
                                      CASE(test_files_come_back),
                                      CASE(test_files_of_comfyui),
                                      CASE(test_files_that_are_none),
                                      CASE(test_a_head_is_as_short_as_it_can_be)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
