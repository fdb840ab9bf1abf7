/* Reads a prompt into what a picture must show, and compares. See wish.h. */
#include "wish.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_WORDS = 64, MAX_PROMPT = 1024 };

/* Centroids of a pair must differ by this much along the axis that the relation names, and by less across it. */
static const double min_apart = 12.0;

static const struct {
    const char *word;
    enum relation relation;
} relation_words[] = {{"left", LEFT},  {"right", RIGHT}, {"above", ABOVE},
                      {"over", ABOVE}, {"below", BELOW}, {"under", BELOW}};

static int find(const char *const *names, int count, const char *word)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], word) == 0) return i;
    return -1;
}

/* Cuts text into lower-case words in place. */
static int split(char *text, char *words[MAX_WORDS])
{
    int count = 0;
    for (char *at = text; *at; at++)
        if (*at >= 'A' && *at <= 'Z') *at = (char)(*at - 'A' + 'a');
    for (char *word = strtok(text, " \t,.;:!\"'"); word && count < MAX_WORDS; word = strtok(NULL, " \t,.;:!\"'"))
        words[count++] = word;
    return count;
}

int wish_read(const char *prompt, struct wish *wish, const char **why)
{
    char copy[MAX_PROMPT];
    char *words[MAX_WORDS];
    int colour = -1, size = -1;
    *wish = (struct wish){.background = -1};
    snprintf(copy, sizeof copy, "%s", prompt);
    int count = split(copy, words);
    for (int i = 0; i < count; i++) {
        int found;
        if (i + 1 < count && strcmp(words[i + 1], "background") == 0 &&
            (found = find(sight_background_names, SIGHT_BACKGROUNDS, words[i])) >= 0)
            wish->background = found;
        else if ((found = find(sight_colour_names, SIGHT_COLOURS, words[i])) >= 0)
            colour = found;
        else if ((found = find(sight_size_names, SIGHT_SIZES, words[i])) >= 0)
            size = found;
        else if ((found = find(sight_shape_names, SIGHT_SHAPES, words[i])) >= 0) {
            if (wish->count == 2 || colour < 0) {
                *why = colour < 0 ? "a shape without a colour" : "more than two shapes";
                return -1;
            }
            wish->shape[wish->count] = found;
            wish->colour[wish->count] = colour;
            wish->size[wish->count++] = size;
            colour = size = -1;
        } else
            for (size_t k = 0; k < sizeof relation_words / sizeof *relation_words; k++)
                if (strcmp(relation_words[k].word, words[i]) == 0) wish->relation = relation_words[k].relation;
    }
    *why = wish->count == 0                             ? "no shape is named"
           : wish->count == 2 && wish->relation == NONE ? "two shapes without a relation"
                                                        : NULL;
    return *why ? -1 : 0;
}

static int thing_fits(const struct wish *wish, int k, const struct thing *t)
{
    return t->shape == wish->shape[k] && t->colour == wish->colour[k] &&
           (wish->size[k] < 0 || t->size == wish->size[k]);
}

static int relation_holds(enum relation relation, const struct thing *a, const struct thing *b)
{
    double dx = b->x - a->x, dy = b->y - a->y;
    if (relation == RIGHT || relation == BELOW) {
        dx = -dx;
        dy = -dy;
    }
    int sideways = relation == LEFT || relation == RIGHT;
    double along = sideways ? dx : dy, across = sideways ? dy : dx;
    return along >= min_apart && fabs(across) < along;
}

int wish_granted(const struct wish *wish, const struct sight *seen)
{
    const struct thing *t = seen->things;
    if (seen->count != wish->count || (wish->background >= 0 && seen->background != wish->background)) return 0;
    if (wish->count == 1) return thing_fits(wish, 0, &t[0]);
    for (int swap = 0; swap < 2; swap++)
        if (thing_fits(wish, 0, &t[swap]) && thing_fits(wish, 1, &t[!swap]) &&
            relation_holds(wish->relation, &t[swap], &t[!swap]))
            return 1;
    return 0;
}
