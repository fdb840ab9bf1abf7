/* unet_block_list.c - see unet_block_list.h. */
#include "unet_block_list.h"

#include "kiln/kit.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- places ---- */

/* "input.7.t3.attn1" -> i, 7, 3. 0: it is no self-attention of a block. */
static int take_apart(const char *place, char *part, uint32_t *number, uint32_t *transformer)
{
    char name[8] = "";
    int end = 0;
    *transformer = 0;
    if (sscanf(place, "%7[a-z].%u%n", name, number, &end) < 2) return 0;
    if (strcmp(place + end, ".attn1") != 0) {
        int more = 0;
        if (sscanf(place + end, ".t%u%n", transformer, &more) < 1 || strcmp(place + end + more, ".attn1") != 0)
            return 0;
    }
    *part = name[0];
    return *transformer < 64 && (!strcmp(name, "input") || !strcmp(name, "middle") || !strcmp(name, "output"));
}

static void add(unet_blocks *to, unet_block b)
{
    for (size_t i = 0; i < to->n; i++)
        if (to->block[i].part == b.part && to->block[i].number == b.number) {
            to->block[i].transformers |= b.transformers;
            return;
        }
    if (to->n < UNET_BLOCKS_MAX) to->block[to->n++] = b;
}

static void add_place(void *arg, const char *place, uint32_t kind)
{
    unet_block b;
    uint32_t transformer;
    (void)kind;
    if (!take_apart(place, &b.part, &b.number, &transformer)) return;
    b.transformers = (uint64_t)1 << transformer;
    add(arg, b);
}

void unet_blocks_all(const kiln_model *m, unet_blocks *out)
{
    out->n = 0;
    if (m->denoiser->places) m->denoiser->places(m->denoiser, add_place, out);
}

int unet_blocks_have(const unet_blocks *b, const char *place)
{
    char part;
    uint32_t number, transformer;
    if (!take_apart(place, &part, &number, &transformer)) return 0;
    for (size_t i = 0; i < b->n; i++)
        if (b->block[i].part == part && b->block[i].number == number)
            return b->block[i].transformers >> transformer & 1;
    return 0;
}

void unet_blocks_one(const unet_blocks *all, const char *part, int64_t number, unet_blocks *out)
{
    int64_t real = number + (part[0] == 'm'); /* the middle's attention is the second of its layers */
    out->n = 0;
    for (size_t i = 0; i < all->n; i++)
        if (all->block[i].part == part[0] && all->block[i].number == real) add(out, all->block[i]);
}

void unet_blocks_print(const unet_blocks *b, char out[UNET_BLOCKS_TEXT])
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < b->n && at < UNET_BLOCKS_TEXT; i++)
        at += (size_t)snprintf(out + at, UNET_BLOCKS_TEXT - at, "%s%c%u:%llx", i ? "," : "", b->block[i].part,
                               b->block[i].number, (unsigned long long)b->block[i].transformers);
}

/* ---- text ---- */

typedef struct {
    const char *at;
    char *why;
    char item[40]; /* what is being read, for messages */
} reader;

static int refuse(const reader *r, const char *what) { return snprintf(r->why, 160, "'%s': %s", r->item, what), 0; }

static void skip_blanks(reader *r)
{
    while (*r->at == ' ') r->at++;
}

static int read_number(reader *r, uint32_t *out)
{
    skip_blanks(r);
    if (*r->at < '0' || *r->at > '9') return refuse(r, "a number is missing; blocks are written d2.0-1, m0, u3");
    for (*out = 0; *r->at >= '0' && *r->at <= '9'; r->at++)
        if (*out < 1000) *out = *out * 10 + (uint32_t)(*r->at - '0');
    skip_blanks(r);
    return 1;
}

/* "2" or "2-4" */
static int read_range(reader *r, uint32_t range[2])
{
    if (!read_number(r, &range[0])) return 0;
    range[1] = range[0];
    if (*r->at != '-') return 1;
    r->at++;
    return read_number(r, &range[1]) && (range[0] <= range[1] || refuse(r, "the range ends before it begins"));
}

static void name_item(reader *r)
{
    size_t n = strcspn(r->at, ",");
    while (n && r->at[n - 1] == ' ') n--;
    snprintf(r->item, sizeof r->item, "%.*s", (int)(n < sizeof r->item ? n : sizeof r->item - 1), r->at);
}

/* The index-th block of this part that has self-attention. */
static const unet_block *nth(const unet_blocks *all, char part, uint32_t index)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->block[i].part == part && index-- == 0) return &all->block[i];
    return NULL;
}

static int add_block(reader *r, const unet_block *block, const uint32_t transformers[2], unet_blocks *out)
{
    unet_block b = block ? *block : (unet_block){0};
    if (!block) return refuse(r, "this model has fewer such blocks with self-attention");
    if (transformers) {
        if (transformers[1] >= 64 || !(b.transformers >> transformers[1] & 1))
            return refuse(r, "the block has fewer transformers");
        b.transformers = ((uint64_t)2 << transformers[1]) - ((uint64_t)1 << transformers[0]);
    }
    return add(out, b), 1;
}

static int read_item(reader *r, const unet_blocks *all, unet_blocks *out)
{
    static const char letters[] = "dmu", parts[] = "imo";
    uint32_t blocks[2], transformers[2];
    skip_blanks(r), name_item(r);
    const char *letter = *r->at ? strchr(letters, *r->at) : NULL;
    if (!letter) return refuse(r, "a block begins with d, m or u: the way down, the middle, the way up");
    r->at++;
    if (!read_range(r, blocks)) return 0;
    int some = *r->at == '.';
    if (some && (r->at++, !read_range(r, transformers))) return 0;
    for (uint32_t i = blocks[0]; i <= blocks[1]; i++)
        if (!add_block(r, nth(all, parts[letter - letters], i), some ? transformers : NULL, out)) return 0;
    return *r->at == '\0' || *r->at == ',' || refuse(r, "blocks are written d2.0-1, m0, u3, with commas between");
}

int unet_blocks_read(const unet_blocks *all, const char *text, unet_blocks *out, char why[160])
{
    reader r = {.at = text, .why = why};
    out->n = 0;
    do {
        if (!read_item(&r, all, out)) return 0;
    } while (*r.at++ == ',');
    return 1;
}
