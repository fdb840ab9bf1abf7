/* test_clip_names.c - every tensor of the text encoders of released files (tests/golden/text_encoder_names.txt): all
 * are found under transformers' names, nothing is missing, and nothing is left over but what no network needs. Files of
 * full size with holes instead of numbers stand for the real ones. */
#include "base/file.h"
#include "clip_kit.h"
#include "clip_tokenizer.h"
#include "file_outline.h"

/* ---- files without numbers ---- */

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

/* T3: CLIP L fills a chunk up with the end token, OpenCLIP with 0; these files have no tokenizer to say it. */
static void check_padding(const kiln_clip_encoder *e)
{
    kiln_tokens t = {.size = sizeof t};
    kiln_status status = e->encoder->tokenise(e->encoder, e->tokenizer, rig_host(), rig_ctx(), "a cat", &t);
    CHECK_MSG(status == KILN_OK, "%s: %s", e->name, rig_message());
    if (status != KILN_OK) return;
    CHECK_EQ(t.length, 77);
    CHECK_EQ(t.end[0], 3);
    CHECK_EQ(t.id[3], 49407);
    CHECK_EQ(t.id[4], e->name[0] == 'l' ? 49407 : 0);
    CHECK_EQ(t.id[76], t.id[4]);
}

static void show(void *arg, const kiln_weight_info *info) { (void)arg, (void)info; }

static void check_file(const char *checkpoint, const char *encoders, const char *architectures, int layer)
{
    outline o;
    error e = {0};
    const char *path = write_outline(checkpoint, &(outline_edit){0}, &o);
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
        check_padding(one);
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
