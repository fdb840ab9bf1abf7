/* test_clip_names.c - every tensor of the text encoders of released files (tests/golden/text_encoder_names.txt): all
 * are found under transformers' names, nothing is missing, and nothing is left over but what no network needs. Files of
 * full size with holes instead of numbers stand for the real ones. */
#include "base/file.h"
#include "clip_kit.h"
#include "clip_tokenizer.h"

#include <unistd.h>

/* ---- a file of full size ---- */

typedef struct {
    char *header;
    size_t used, capacity, end; /* end: of the data so far */
    size_t n, needless;
} outline;

static void add_tensor(outline *o, const char *name, const char *dims_text)
{
    size_t bytes = 2;
    char dims[80] = "", copy[80];
    snprintf(copy, sizeof copy, "%s", dims_text);
    for (char *dim = strtok(copy, "x"); dim; dim = strtok(NULL, "x")) {
        bytes *= (size_t)atoll(dim);
        snprintf(dims + strlen(dims), sizeof dims - strlen(dims), "%s%s", dims[0] ? "," : "", dim);
    }
    if (o->used + 400 > o->capacity) o->header = realloc(o->header, o->capacity = 2 * o->capacity + 4096);
    o->used += (size_t)snprintf(o->header + o->used, o->capacity - o->used,
                                "%c\"%s\":{\"dtype\":\"F16\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                                o->n ? ',' : '{', name, dims, o->end, o->end + bytes);
    o->end += bytes;
    o->n++;
}

/* A line's tensors: "{24}" in the name stands for 0 to 23. */
static void add_line(outline *o, const char *name, const char *dims_text, int needless)
{
    const char *open = strchr(name, '{');
    char full[200];
    if (needless) o->needless++;
    if (!open) {
        add_tensor(o, name, dims_text);
        return;
    }
    for (int i = 0; i < atoi(open + 1); i++) {
        snprintf(full, sizeof full, "%.*s%d%s", (int)(open - name), name, i, strchr(name, '}') + 1);
        add_tensor(o, full, dims_text);
    }
}

static outline read_names(const char *checkpoint)
{
    outline o = {0};
    char path[600], line[300], which[40], name[160], dims[40], mark[4];
    snprintf(path, sizeof path, "%s/tests/golden/text_encoder_names.txt", test_root());
    FILE *f = fopen(path, "rb");
    CHECK_MSG(f != NULL, "%s is missing", path);
    while (f && fgets(line, sizeof line, f)) {
        int fields = line[0] == '#' ? 0 : sscanf(line, "%39s %159s %39s %3s", which, name, dims, mark);
        if (fields >= 3 && strcmp(which, checkpoint) == 0) add_line(&o, name, dims, fields == 4);
    }
    if (f) fclose(f);
    CHECK(o.n > 100);
    return o;
}

/* The file's path, in static memory. */
static const char *write_outline(const char *checkpoint, outline *o)
{
    static char path[700];
    snprintf(path, sizeof path, "%s/%s.safetensors", test_folder(), checkpoint);
    *o = read_names(checkpoint);
    FILE *f = fopen(path, "wb");
    uint64_t length = o->used + 1;
    CHECK(f && fwrite(&length, sizeof length, 1, f) == 1 && fwrite(o->header, 1, o->used, f) == o->used);
    if (f) {
        fputc('}', f);
        fclose(f);
    }
    CHECK_EQ(truncate(path, (off_t)(9 + o->used + o->end)), 0);
    free(o->header);
    return path;
}

/* What lies in the holes need not be read: each file is told apart by its size. */
static int known_digest(void *self, const file_identity *file, digest *out)
{
    (void)self;
    *out = (digest){.lo = file->size, .hi = 1};
    return 1;
}

static void forget_digest(void *self, const char *path, const file_identity *file, digest content, int64_t began_ns)
{
    (void)self, (void)path, (void)file, (void)content, (void)began_ns;
}

/* ---- what kiln makes of it ---- */

/* Records the encoder once: every tensor is asked for. */
static void record_encoder(const kiln_clip_encoder *e)
{
    const char *message = "";
    piece c = piece_new(KILN_F32);
    kiln_text_inputs in = {.size = sizeof in, .layer = e->encoder->default_layer};
    kiln_text_features out = {.size = sizeof out};
    in.ids = c.ops->input(c.p, "ids", KILN_I32, 2, KILN_DIMS(1, 77));
    in.end = c.ops->input(c.p, "end", KILN_I32, 1, KILN_DIMS(1));
    e->encoder->record(e->encoder, c.ops, c.p, e->weights, &in, &out);
    CHECK_MSG(c.ops->error(c.p, &message) == KILN_OK, "%s: %s", e->name, message);
    c.ops->program_free(c.p);
}

static void show(void *arg, const kiln_weight_info *info) { (void)arg, (void)info; }

static void check_file(const char *checkpoint, const char *encoders, const char *architectures, int layer)
{
    outline o;
    error e = {0};
    const char *path = write_outline(checkpoint, &o);
    kiln_weights *set = weights_open(path, &e);
    CHECK_MSG(set != NULL, "%s", e.message);
    kiln_value *v = set ? clip_family.open(rig_host(), rig_ctx(), set) : NULL;
    CHECK_MSG(v != NULL, "%s: %s", checkpoint, rig_message());
    const kiln_clip *clip = v ? clip_of(v) : NULL;
    char names[40] = "", whats[200] = "";
    for (uint32_t i = 0; clip && i < clip->n_encoder; i++) {
        const kiln_clip_encoder *one = kiln_clip_encoder_at(clip, i);
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s", one->name);
        snprintf(whats + strlen(whats), sizeof whats - strlen(whats), "%s%s", i ? ", " : "",
                 one->encoder->architecture);
        CHECK_EQ(one->encoder->default_layer, layer);
        record_encoder(one);
    }
    CHECK_STR(names, encoders);
    CHECK_STR(whats, architectures);
    if (set) CHECK_EQ(weights_count(set), o.n);
    if (set) CHECK_EQ(weights_unused(set, show, NULL), o.needless);
    rig_host()->unref(v);
    weights_unref(set);
    remove(path);
}

static void test_M7_single_files(void)
{
    check_file("sd1", "l", "CLIP L", -1);
    check_file("sd2", "h", "OpenCLIP H", -2);
    check_file("sdxl", "lg", "CLIP L, OpenCLIP bigG", -2);
    check_file("refiner", "g", "OpenCLIP bigG", -2);
}

static void test_M7_encoders_in_files_of_their_own(void)
{
    check_file("h", "h", "OpenCLIP H", -2);
    check_file("g", "g", "OpenCLIP bigG", -2);
    check_file("clip_l", "l", "CLIP L", -1);
    check_file("clip_h", "h", "OpenCLIP H", -2);
    check_file("sd2_cut", "h", "OpenCLIP H", -2);
    check_file("clip_g", "g", "OpenCLIP bigG", -2);
}

int main(int argc, char **argv)
{
    char data[600];
    if (!tokenizers()) return 1;
    snprintf(data, sizeof data, "%s/plugins/clip/data", test_root());
    clip_tokenizer_data(data);
    file_digest_memory(&(file_memory){.find = known_digest, .add = forget_digest});
    static const test_case cases[] = {CASE(test_M7_single_files), CASE(test_M7_encoders_in_files_of_their_own)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
