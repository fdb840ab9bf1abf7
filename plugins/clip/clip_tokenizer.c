/* clip_tokenizer.c - see clip_tokenizer.h. */
#include "clip_tokenizer.h"

#include "kiln/config.h"
#include "kiln/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *data_folder; /* of this plugin, from the host; NULL when it was installed without its data */

void clip_tokenizer_data(const char *folder) { data_folder = folder; }

/* ---- files ---- */

/* CLIP's own merges.txt, NUL-terminated; NULL when it cannot be read. The caller frees it. */
static char *own_merges(size_t *n)
{
    enum { CAPACITY = 4 << 20 };
    char path[4096];
    int length = data_folder ? snprintf(path, sizeof path, "%s/clip-l/merges.txt", data_folder) : -1;
    FILE *f = length > 0 && length < (int)sizeof path ? fopen(path, "rbe") : NULL;
    char *text = f ? malloc(CAPACITY + 1) : NULL;
    *n = text ? fread(text, 1, CAPACITY, f) : 0;
    if (f) fclose(f);
    if (text) text[*n] = 0;
    return text;
}

/* The tokenizer of files in memory; vocab NULL: merges alone. */
static kiln_status open_files(const kiln_host *host, kiln_ctx *ctx, const char *vocab, size_t n_vocab,
                              const char *merges, size_t n_merges, kiln_tokenizer **out)
{
    const kiln_tokenizer_file files[] = {{sizeof *files, "merges.txt", merges, n_merges},
                                         {sizeof *files, "vocab.json", vocab, n_vocab}};
    const kiln_tokenizer_source source = {
        .size = sizeof source, .kind = "clip-bpe", .file = files, .n_file = vocab ? 2 : 1};
    const kiln_tokenizer_api *api = host->ability(KILN_TOKENIZER_ABILITY);
    if (!api)
        return host->fail(ctx, KILN_ERR_UNSUPPORTED,
                          "there is no tokenizer: kiln-tokenizer.so is not among the plugins; install kiln anew");
    if (!(*out = api->open(ctx, &source))) return KILN_ERR_INVALID;
    return KILN_OK;
}

/* A file of the tokenizer's folder; NULL when there is none. */
static const char *folder_text(const kiln_host *host, const kiln_weights *set, const clip_part *part, const char *name,
                               char path[80], size_t *n)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    snprintf(path, 80, "%s%s", part->tokenizer, name);
    const char *text = w->text(set, path, n);
    if (!text && clip_layout_in_metadata(part)) snprintf(path, 80, "tokenizer/%s", name); /* where one would be */
    return text;
}

static kiln_status open_tokenizer(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const clip_part *part,
                                  clip_tokenizer *out)
{
    char vocab_file[80], merges_file[80], *own = NULL;
    size_t n_vocab = 0, n_merges = 0;
    const char *vocab = folder_text(host, set, part, "vocab.json", vocab_file, &n_vocab);
    const char *merges = folder_text(host, set, part, "merges.txt", merges_file, &n_merges);
    if (!vocab != !merges)
        return host->fail(ctx, KILN_ERR_INVALID, "the checkpoint has %s but no %s; the tokenizer needs both",
                          vocab ? vocab_file : merges_file, vocab ? merges_file : vocab_file);
    if (!vocab && !(merges = own = own_merges(&n_merges)))
        return host->fail(ctx, KILN_ERR_UNSUPPORTED,
                          "the checkpoint has no tokenizer (%s and merges.txt), and CLIP's own cannot be read from "
                          "clip-l/merges.txt in the folder kiln-clip.data beside the plugin kiln-clip.so; install kiln "
                          "anew",
                          vocab_file);
    out->own = own != NULL;
    kiln_status status = open_files(host, ctx, vocab, n_vocab, merges, n_merges, &out->opened);
    free(own);
    return status;
}

/* ---- padding ---- */

/* The text of pad_token in a file of the tokenizer, "" when it is not there: a string, or {"content": string}. */
static kiln_status read_pad(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const char *path,
                            char text[80])
{
    config c = config_open(host, ctx, set, path);
    const json_t *pad = config_get(&c, "pad_token");
    const char *value = json_string_value(json_is_object(pad) ? json_object_get(pad, "content") : pad);
    snprintf(text, 80, "%s", value ? value : "");
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}

static kiln_status find_pad(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const clip_part *part,
                            prompt_tokenizer *t)
{
    static const char *const files[] = {"special_tokens_map.json", "tokenizer_config.json"};
    char path[80], text[80] = "";
    t->pad = part->kind == CLIP_L ? t->end : 0;
    for (size_t i = 0, n = 0; i < COUNT(files) && !text[0]; i++)
        if (folder_text(host, set, part, files[i], path, &n)) TRY(read_pad(host, ctx, set, path, text));
    if (!text[0]) return KILN_OK;
    if ((t->pad = t->api->special(t->tokenizer, text)) >= 0) return KILN_OK;
    return host->fail(ctx, KILN_ERR_INVALID, "%s: pad_token is '%s', which the vocabulary does not have", path, text);
}

kiln_status clip_tokenizer_open(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const clip_part *part,
                                clip_tokenizer *out)
{
    *out = (clip_tokenizer){.opened = NULL};
    TRY(open_tokenizer(host, ctx, set, part, out));
    out->cut = prompt_tokenizer_of(host->ability(KILN_TOKENIZER_ABILITY), out->opened);
    return find_pad(host, ctx, set, part, &out->cut);
}
