/* gemma_family.c - DiffusionGemma as a row: files, sizes, how it is spoken to. */
#include "gemma.h"
#include "kiln/config.h"
#include "turn_writer.h"

#include <stdlib.h>

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    const char *config_text_ = w->text(set, "config.json", NULL);
    return gemma_is_gguf(set) || (config_text_ && strstr(config_text_, "\"diffusion_gemma\""));
}

static void close_network(void *network)
{
    gemma *g = network;
    if (g) free(g->divisor);
    free(g);
}

static kiln_status open_model(kiln_ctx *ctx, kiln_weights *set, text_diffusion_model *m)
{
    const kiln_weights_api *w = td_host->ability(KILN_WEIGHTS_ABILITY);
    kiln_weight_info info = {.size = sizeof info};
    if (!(m->weights = gemma_view(ctx, set))) return KILN_ERR_INVALID;
    m->words = "embed_tokens.weight";
    m->head = w->find(m->weights, "output.weight", &info) == KILN_OK ? "output.weight" : m->words;
    return gemma_settings(ctx, set, m->weights, m);
}

static int grows(const text_diffusion_model *m, const char *state)
{
    const gemma *g = m->network;
    char *end;
    long layer = strtol(state, &end, 10);
    return end != state && layer >= 0 && layer < g->layers && g->layer[layer].is_full;
}

/* ---- what it is told: Gemma 4's turns ---- */

/* What the model thought in an earlier answer is not repeated to it. */
static void put_answer(turn_writer *w, const char *s)
{
    static const char from[] = "<|channel>", to[] = "<channel|>";
    char *rest = malloc(strlen(s) + 1);
    size_t n = 0;
    if (!rest) return;
    for (const char *at; *s; s = at + strlen(to)) {
        const char *begin = strstr(s, from);
        at = begin ? strstr(begin, to) : NULL;
        size_t part = begin ? (size_t)(begin - s) : strlen(s);
        memcpy(rest + n, s, part), n += part;
        if (!at) break;
    }
    rest[n] = 0;
    turn_put_trimmed(w, rest);
    free(rest);
}

size_t gemma_render(const text_chat *c, char *out, size_t capacity)
{
    turn_writer w = {out, 0, capacity};
    const int has_system = c->n && !strcmp(c->turn[0].role, "system") && c->turn[0].text[0];
    turn_put(&w, "<bos>");
    if (has_system || c->thinking) {
        turn_put(&w, "<|turn>system\n");
        if (c->thinking) turn_put(&w, "<|think|>\n");
        if (has_system) turn_put_trimmed(&w, c->turn[0].text);
        turn_put(&w, "<turn|>\n");
    }
    for (size_t i = 0; i < c->n; i++) {
        const text_turn *t = &c->turn[i];
        if (!strcmp(t->role, "system")) continue;
        turn_put(&w, "<|turn>"), turn_put(&w, t->role), turn_put(&w, "\n");
        if (!strcmp(t->role, "model"))
            put_answer(&w, t->text);
        else
            turn_put_trimmed(&w, t->text);
        turn_put(&w, "<turn|>\n");
    }
    turn_put(&w, "<|turn>model\n");
    if (c->empty_thought && !c->thinking) turn_put(&w, "<|channel>thought\n<channel|>");
    return w.n;
}

static const char *const stops[] = {"<eos>", "<turn|>", "<|tool_response>", NULL};

const text_diffusion_family gemma_family = {.name = "diffusion-gemma",
                                            .title = "DiffusionGemma",
                                            .detect = detect,
                                            .open = open_model,
                                            .close = close_network,
                                            .record_prompt = gemma_record_prompt,
                                            .record_canvas = gemma_record_canvas,
                                            .conditions = 1,
                                            .render = gemma_render,
                                            .stops = stops,
                                            .thought = {"<|channel>", "<channel|>"},
                                            .grows = grows};
