/* test_types.c - declared value types: kiln's own rows, the sentences about what does not fit them, rows of plugins. */
#include "harness.h"

#include "plugin/abilities.h"
#include "plugin/value_types.h"
#include "tensor/value.h"

#include <stdio.h>
#include <string.h>

static const kiln_value_api *v = &value_api;

static kiln_value *tensor(uint32_t dtype, uint32_t rank, const int64_t *dim)
{
    return value_tensor_new(dtype, KILN_CPU, rank, dim, NULL);
}

#define F32(...)                                                                                                       \
    tensor(KILN_F32, (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

static kiln_value *with(kiln_value *map, const char *key, kiln_value *item)
{
    CHECK_EQ(v->map_set(map, key, item), KILN_OK);
    value_unref(item);
    return map;
}
static kiln_value *map_of(const char *key, kiln_value *item) { return with(v->new_map(NULL), key, item); }

static kiln_value *push(kiln_value *list, kiln_value *item)
{
    CHECK_EQ(v->list_push(list, item), KILN_OK);
    value_unref(item);
    return list;
}

/* The sentence about x as a value of the port's type; "" when it fits. Lets x go. */
static const char *said(kiln_value *x, kiln_port port)
{
    static error e;
    e = (error){0};
    kiln_status status = value_fits_port(x, &port, &e);
    CHECK_EQ(status == KILN_OK, e.message[0] == '\0');
    value_unref(x);
    return e.message;
}
static const char *as(kiln_value *x, const char *type) { return said(x, (kiln_port){.name = "p", .type = type}); }

static void test_tensors(void)
{
    CHECK_STR(as(F32(1, 2, 2, 3), "IMAGE"), "");
    CHECK_STR(as(F32(1, 2, 2, 4), "IMAGE"), "");
    CHECK_STR(as(F32(1, 2, 2, 1), "IMAGE"), "IMAGE is f32 [1,2,2,1]; it has to be f32 [N,H,W,C], the last 3 to 4");
    CHECK_STR(as(tensor(KILN_F16, 4, (int64_t[]){1, 2, 2, 3}), "IMAGE"),
              "IMAGE is f16 [1,2,2,3]; it has to be f32 [N,H,W,C], the last 3 to 4");
    CHECK_STR(as(F32(2, 2, 3), "IMAGE"), "IMAGE is f32 [2,2,3]; it has to be f32 [N,H,W,C], the last 3 to 4");
    CHECK_STR(as(F32(2, 2, 9), "MASK"), "");
    CHECK_STR(as(F32(1, 2, 2, 9), "MASK"), "MASK is f32 [1,2,2,9]; it has to be f32 [N,H,W]");
    CHECK_STR(as(F32(9), "SIGMAS"), "");
    CHECK_STR(as(tensor(KILN_F64, 1, (int64_t[]){9}), "SIGMAS"), "SIGMAS is f64 [9]; it has to be f32 [n+1]");
    CHECK_STR(as(F32(1), "ANYTHING_ELSE"), "");
    CHECK_STR(as(F32(1), "*"), "");
    CHECK_STR(as(NULL, "MASK"), "MASK is nothing; it has to be f32 [N,H,W]");
}

static void test_plain_values_and_handles(void)
{
    CHECK_STR(as(v->new_int(NULL, 1), "INT"), "");
    CHECK_STR(as(v->new_float(NULL, 1), "INT"), "INT is a number; it has to be a whole number");
    CHECK_STR(as(v->new_bool(NULL, 1), "BOOLEAN"), "");
    CHECK_STR(as(v->new_int(NULL, 1), "STRING"), "STRING is a whole number; it has to be a text");
    CHECK_STR(as(v->new_object(NULL, "MODEL", NULL, NULL, NULL), "MODEL"), "");
    CHECK_STR(as(v->new_object(NULL, "VAE", NULL, NULL, NULL), "MODEL"),
              "MODEL is an object of type VAE; it has to be an object of type MODEL");
    CHECK_STR(as(v->new_int(NULL, 1), "CLIP"), "CLIP is a whole number; it has to be an object of type CLIP");
}

static void test_latents(void)
{
    CHECK_STR(as(map_of("samples", F32(1, 9, 4)), "LATENT"), "");
    CHECK_STR(as(map_of("samples", F32(1, 2, 2, 4)), "LATENT"), "");
    CHECK_STR(as(map_of("samples", F32(1, 3, 2, 2, 16)), "LATENT"), "");
    CHECK_STR(as(map_of("samples", F32(2, 2)), "LATENT"),
              "LATENT.samples is f32 [2,2]; it has to be f32 [N,L,C], [N,H,W,C] or [N,T,H,W,C]");
    CHECK_STR(as(map_of("sample", F32(1, 2, 2, 4)), "LATENT"),
              "LATENT.samples is missing; it has to be f32 [N,L,C], [N,H,W,C] or [N,T,H,W,C]");
    CHECK_STR(as(F32(1, 2, 2, 4), "LATENT"), "LATENT is f32 [1,2,2,4]; it has to be a map");
    kiln_value *latent = map_of("samples", F32(1, 2, 2, 4));
    CHECK_STR(as(with(value_ref(latent), "noise_mask", v->new_int(NULL, 1)), "LATENT"),
              "LATENT.noise_mask is a whole number; it has to be f32 [N,H,W]");
    with(latent, "noise_mask", F32(1, 16, 16));
    with(latent, "batch_index", push(push(v->new_list(NULL), v->new_int(NULL, 3)), v->new_float(NULL, 4)));
    CHECK_STR(as(value_ref(latent), "LATENT"),
              "LATENT.batch_index is a list; it has to be a list, each item a whole number");
    with(latent, "batch_index", push(v->new_list(NULL), v->new_int(NULL, 3)));
    with(latent, "entry of somebody else", v->new_bool(NULL, 1));
    CHECK_STR(as(latent, "LATENT"), "");
}

static void test_lists_of_maps(void)
{
    kiln_value *first = map_of("tokens", F32(1, 77, 8)), *list = push(v->new_list(NULL), first);
    CHECK_STR(as(value_ref(list), "CONDITIONING"), "");
    push(list, with(map_of("tokens", F32(1, 77, 8)), "mask", F32(8, 8)));
    CHECK_STR(as(list, "CONDITIONING"), "CONDITIONING[1].mask is f32 [8,8]; it has to be f32 [N,H,W]");
    CHECK_STR(as(push(v->new_list(NULL), v->new_int(NULL, 1)), "CONDITIONING"),
              "CONDITIONING[0] is a whole number; it has to be a map");
    CHECK_STR(as(push(v->new_list(NULL), map_of("tokens", F32(77, 8))), "CONDITIONING"),
              "CONDITIONING[0].tokens is f32 [77,8]; it has to be f32 [N,T,D]");
    CHECK_STR(as(v->new_map(NULL), "CONDITIONING"), "CONDITIONING is a map; it has to be a list of maps");
}

static void test_types_inside_types(void)
{
    kiln_value *video = with(map_of("images", F32(5, 8, 8, 3)), "frame_rate", v->new_int(NULL, 24));
    kiln_value *sound = map_of("waveform", F32(1, 100, 2));
    CHECK_STR(as(value_ref(video), "VIDEO"), "");
    with(video, "audio", value_ref(sound));
    CHECK_STR(as(value_ref(video), "VIDEO"), "VIDEO.audio.sample_rate is missing; it has to be a whole number");
    with(video, "audio", with(map_of("waveform", F32(1, 100, 2)), "sample_rate", v->new_int(NULL, 16000)));
    CHECK_STR(as(value_ref(video), "VIDEO"), "");
    with(video, "frame_rate", v->new_string(NULL, "24", 2));
    CHECK_STR(as(value_ref(video), "VIDEO"), "VIDEO.frame_rate is a text; it has to be a number");
    with(video, "frame_rate", v->new_float(NULL, 24)), with(video, "images", F32(1, 5, 8, 8, 3));
    CHECK_STR(as(video, "VIDEO"), "VIDEO.images is f32 [1,5,8,8,3]; it has to be f32 [N,H,W,C], the last 3 to 4");
    CHECK_STR(as(map_of("ids", tensor(KILN_I64, 2, (int64_t[]){1, 3})), "TOKENS"),
              "TOKENS.ids is i64 [1,3]; it has to be i32 [N,T]");
    value_unref(sound);
}

static void test_ports(void)
{
    kiln_port list = {.type = "MASK", .flags = KILN_PORT_LIST};
    kiln_port narrow = {.type = "*", .dtypes = 1 << KILN_F32 | 1 << KILN_F16, .rank_min = 2, .rank_max = 3};
    CHECK_STR(said(push(push(v->new_list(NULL), F32(1, 2, 2)), F32(1, 3, 3)), list), "");
    CHECK_STR(said(push(push(v->new_list(NULL), F32(1, 2, 2)), F32(3, 3)), list),
              "MASK is f32 [3,3]; it has to be f32 [N,H,W]");
    CHECK_STR(said(F32(1, 2, 2), list), "what a list port is given has to be a list, not a tensor");
    CHECK_STR(said(tensor(KILN_F16, 2, (int64_t[]){1, 2}), narrow), "");
    CHECK_STR(said(tensor(KILN_U8, 2, (int64_t[]){1, 2}), narrow),
              "* is u8 [1,2], and this port declares f32 or f16 of 2 to 3 dimensions");
    CHECK_STR(said(F32(1), narrow), "* is f32 [1], and this port declares f32 or f16 of 2 to 3 dimensions");
}

/* ---- rows of plugins ---- */

static const kiln_value_entry cloud_entry[] = {
    {.size = sizeof(kiln_value_entry),
     .key = "points",
     .doc = "One a row.",
     .kinds = 1u << KILN_V_TENSOR,
     .dtypes = 1u << KILN_F32,
     .rank_min = 2,
     .rank_max = 2,
     .last_min = 3,
     .last_max = 3},
    {.size = sizeof(kiln_value_entry),
     .key = "picture",
     .doc = "What it was made of.",
     .type = "IMAGE",
     .flags = KILN_ENTRY_OPTIONAL},
    {.size = sizeof(kiln_value_entry),
     .key = "parts",
     .doc = "Smaller clouds.",
     .type = "CLOUDS",
     .flags = KILN_ENTRY_OPTIONAL},
};
static const kiln_value_type early = {
    .size = sizeof early, .kind = KILN_V_MAP, .name = "CLOUD", .doc = "Points.", KILN_ARRAY(entry, cloud_entry)};
static const kiln_value_type cloud = {.size = sizeof cloud,
                                      .kind = KILN_V_MAP,
                                      .name = "CLOUD",
                                      .doc = "Points.",
                                      .entry = cloud_entry,
                                      .n_entry = 2,
                                      .entry_stride = sizeof cloud_entry[0]};
static const kiln_value_type clouds = {
    .size = sizeof clouds, .kind = KILN_V_LIST, .name = "CLOUDS", .doc = "Several.", .item = "CLOUD"};

static void test_rows_of_plugins(void)
{
    size_t before = types_api.type_count(), mark = registry_mark();
    registry_owner_set("org.example.cloud", NULL);
    CHECK_EQ(types_api.register_type(&early), KILN_ERR_INVALID);
    CHECK_STR(registry_fault(), "value type 'CLOUD': entry 'parts' is a 'CLOUDS', which has no row; register that one "
                                "before");
    registry_owner_set("org.example.cloud", NULL);
    CHECK(types_api.register_type(&cloud) == KILN_OK && types_api.register_type(&clouds) == KILN_OK);
    CHECK(types_api.type_count() == before + 2 && types_api.find("CLOUDS") == &clouds &&
          types_api.type_at(before) == &cloud);
    CHECK_STR(value_type_owner("CLOUD"), "org.example.cloud");
    CHECK_EQ(types_api.register_type(&cloud), KILN_ERR_INVALID);
    CHECK_STR(registry_fault(), "value type 'CLOUD' is already registered by org.example.cloud");
    registry_owner_set(NULL, NULL);
    CHECK_STR(as(map_of("points", F32(4, 3)), "CLOUD"), "");
    CHECK_STR(as(push(push(v->new_list(NULL), map_of("points", F32(4, 3))), map_of("points", F32(4, 2))), "CLOUDS"),
              "CLOUDS[1].points is f32 [4,2]; it has to be f32 of 2 dimensions, the last 3");
    CHECK_STR(as(with(map_of("points", F32(4, 3)), "picture", F32(4, 3)), "CLOUD"),
              "CLOUD.picture is f32 [4,3]; it has to be f32 [N,H,W,C], the last 3 to 4");
    CHECK(value_type_is_plain("CLOUD") && value_type_is_plain("VIDEO") && !value_type_is_plain("MODEL") &&
          !value_type_is_plain("GUIDER") && !value_type_is_plain("NOBODY_S"));
    registry_rewind(mark);
    CHECK(types_api.type_count() == before && !types_api.find("CLOUD"));
    CHECK_STR(as(v->new_int(NULL, 1), "CLOUD"), "");
}

static void test_rows_that_say_nothing_sensible(void)
{
    static const kiln_value_entry no_doc[] = {{.size = sizeof(kiln_value_entry), .key = "x"}};
    static const kiln_value_entry twice[] = {{.size = sizeof(kiln_value_entry), .key = "x", .doc = "X."},
                                             {.size = sizeof(kiln_value_entry), .key = "x", .doc = "X."}};
    static const kiln_value_entry ranks[] = {
        {.size = sizeof(kiln_value_entry), .key = "x", .doc = "X.", .rank_min = 3, .rank_max = 2}};
#define ROW(...)                                                                                                       \
    {                                                                                                                  \
        .size = sizeof(kiln_value_type), .name = "ROW", .doc = "A row.", __VA_ARGS__                                   \
    }
    static const struct {
        kiln_value_type type;
        const char *says;
    } rows[] = {
        {ROW(.kind = 0), "a kind of value that there is not"},
        {ROW(.kind = 77), "a kind of value that there is not"},
        {ROW(.kind = KILN_V_TENSOR, .rank_min = 1, .rank_max = 9), "ranks that are no range from 0 to 8"},
        {ROW(.kind = KILN_V_TENSOR, .dtypes = 1u << 30), "a dtype that there is not"},
        {ROW(.kind = KILN_V_TENSOR, .last_min = 3, .last_max = 2), "a last dimension whose ends are no range"},
        {ROW(.kind = KILN_V_MAP, .item = "IMAGE"), "only a list has items"},
        {ROW(.kind = KILN_V_LIST, .item = "NOBODY_S"), "their type needs a row"},
        {ROW(.kind = KILN_V_INT, KILN_ARRAY(entry, ranks)), "entries are those of a map"},
        {ROW(.kind = KILN_V_MAP, KILN_ARRAY(entry, no_doc)), "entry 0 has no usable key, or no doc"},
        {ROW(.kind = KILN_V_MAP, KILN_ARRAY(entry, twice)), "has entry 'x' twice"},
        {ROW(.kind = KILN_V_MAP, KILN_ARRAY(entry, ranks)), "entry 'x' has ranks that are no range"},
        {{.size = sizeof(kiln_value_type), .kind = KILN_V_MAP, .name = "IMAGE", .doc = "Ours."}, "is kiln's own"},
        {{.size = sizeof(kiln_value_type), .kind = KILN_V_MAP, .name = "ROW"}, "has no doc"},
        {{.size = 8, .kind = KILN_V_MAP, .name = "ROW", .doc = "Ours."}, "without its size"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        registry_owner_set("org.example.rows", NULL);
        CHECK_EQ(types_api.register_type(&rows[i].type), KILN_ERR_INVALID);
        CHECK_MSG(strstr(registry_fault(), rows[i].says) != NULL, "row %zu: %s", i, registry_fault());
    }
    registry_owner_set(NULL, NULL);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_tensors),
        CASE(test_plain_values_and_handles),
        CASE(test_latents),
        CASE(test_lists_of_maps),
        CASE(test_types_inside_types),
        CASE(test_ports),
        CASE(test_rows_of_plugins),
        CASE(test_rows_that_say_nothing_sensible),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
