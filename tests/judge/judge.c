/* Says whether a picture shows what its prompt asked for, from the pixels alone.
 *
 *     judge PICTURE.png "a red circle to the left of a blue square"     one picture
 *     judge --list FILE [--at-least N]                                  lines of PICTURE<tab>PROMPT
 *     judge --features PICTURE.png                                      the numbers behind the shapes
 *
 * Everything the prompt names is checked: the number of things, each shape and colour, the relation by centroids, and
 * size and background when they are named. Exit status: 0 right (in a list: at least N right, by default all),
 * 1 wrong, 2 not usable (arguments, files). The grammar is that of docs/models/shapes.md. */
#include "sight.h"

#include <errno.h>
#include <math.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 64, LINE = 4096 };
enum relation { NONE, LEFT, RIGHT, ABOVE, BELOW };
enum verdict { RIGHT_PICTURE = 0, WRONG_PICTURE = 1, UNUSABLE = 2 };

/* Centroids of a pair must differ by this much along the axis that the relation names, and by less across it. */
static const double min_apart = 12.0;

struct wish {
    int count, shape[2], colour[2], size[2], background;
    enum relation relation;
};

static const struct {
    const char *word;
    enum relation relation;
} relation_words[] = {{"left", LEFT}, {"right", RIGHT}, {"above", ABOVE}, {"over", ABOVE}, {"below", BELOW}, {"under", BELOW}};

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
    for (char *word = strtok(text, " \t,.;:!\"'"); word && count < MAX_WORDS; word = strtok(NULL, " \t,.;:!\"'")) words[count++] = word;
    return count;
}

/* Reads a prompt. Adjectives belong to the shape that follows them. Returns 0, or -1 with *why set. */
static int read_wish(const char *prompt, struct wish *wish, const char **why)
{
    static char copy[LINE];
    char *words[MAX_WORDS];
    int colour = -1, size = -1;
    *wish = (struct wish){.background = -1};
    snprintf(copy, sizeof copy, "%s", prompt);
    int count = split(copy, words);
    for (int i = 0; i < count; i++) {
        int found;
        if (i + 1 < count && strcmp(words[i + 1], "background") == 0 && (found = find(sight_background_names, SIGHT_BACKGROUNDS, words[i])) >= 0)
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
    *why = wish->count == 0 ? "no shape is named" : wish->count == 2 && wish->relation == NONE ? "two shapes without a relation" : NULL;
    return *why ? -1 : 0;
}

static int thing_fits(const struct wish *wish, int k, const struct thing *t)
{
    return t->shape == wish->shape[k] && t->colour == wish->colour[k] && (wish->size[k] < 0 || t->size == wish->size[k]);
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

static int is_right(const struct wish *wish, const struct sight *seen)
{
    const struct thing *t = seen->things;
    if (seen->count != wish->count || (wish->background >= 0 && seen->background != wish->background)) return 0;
    if (wish->count == 1) return thing_fits(wish, 0, &t[0]);
    for (int swap = 0; swap < 2; swap++)
        if (thing_fits(wish, 0, &t[swap]) && thing_fits(wish, 1, &t[!swap]) && relation_holds(wish->relation, &t[swap], &t[!swap])) return 1;
    return 0;
}

static const char *name(const char *const *names, int at)
{
    return at < 0 ? "unclear" : names[at];
}

static void print_seen(const struct sight *seen, int features)
{
    for (int i = 0; i < seen->count && i < SIGHT_MAX_THINGS; i++) {
        const struct thing *t = &seen->things[i];
        printf("%s%s %s %s at %.0f,%.0f", i ? "; " : "", name(sight_size_names, t->size), name(sight_colour_names, t->colour),
               name(sight_shape_names, t->shape), t->x, t->y);
        for (int f = 0; features && f < 6; f++) printf(" %.3f", t->features[f]);
        if (features) printf(" error %.3f radius %.1f", t->shape_error, t->radius);
    }
    printf("%s on %s\n", seen->count ? "" : "nothing", name(sight_background_names, seen->background));
}

/* Loads an 8-bit RGB copy of a PNG; *pixels is the caller's to free. Returns 0 or -1 after a message. */
static int load(const char *path, struct picture *picture, uint8_t **pixels)
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    *pixels = NULL;
    if (png_image_begin_read_from_file(&image, path)) {
        image.format = PNG_FORMAT_RGB;
        if (image.width <= 4096 && image.height <= 4096) *pixels = malloc(PNG_IMAGE_SIZE(image));
        if (*pixels && png_image_finish_read(&image, NULL, *pixels, 0, NULL)) {
            *picture = (struct picture){(int)image.width, (int)image.height, *pixels};
            return 0;
        }
    }
    fprintf(stderr, "judge: %s: %s\n", path, image.message[0] ? image.message : "larger than 4096x4096 or out of memory");
    png_image_free(&image);
    free(*pixels);
    *pixels = NULL;
    return -1;
}

static enum verdict judge(const char *path, const char *prompt, int features)
{
    struct wish wish = {0};
    struct sight seen;
    struct picture picture;
    uint8_t *pixels;
    const char *why = NULL;
    if (prompt && read_wish(prompt, &wish, &why)) {
        fprintf(stderr, "judge: cannot judge \"%s\": %s\n", prompt, why);
        return UNUSABLE;
    }
    if (load(path, &picture, &pixels)) return UNUSABLE;
    int bad = sight_look(&picture, &seen);
    free(pixels);
    if (bad) {
        fprintf(stderr, "judge: %s: smaller than 16x16 or out of memory\n", path);
        return UNUSABLE;
    }
    enum verdict verdict = prompt && !is_right(&wish, &seen) ? WRONG_PICTURE : RIGHT_PICTURE;
    if (prompt) printf("%s  %s  \"%s\": ", verdict == RIGHT_PICTURE ? "right" : "WRONG", path, prompt);
    print_seen(&seen, features);
    return verdict;
}

static int judge_list(const char *path, long at_least)
{
    char line[LINE];
    long total[2] = {0}, right[2] = {0}, unusable = 0;
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "judge: %s: %s\n", path, strerror(errno));
        return UNUSABLE;
    }
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\r\n")] = 0;
        char *tab = strchr(line, '\t');
        if (!line[0] || line[0] == '#') continue;
        if (!tab) {
            fprintf(stderr, "judge: %s: a line without a tab between picture and prompt: %s\n", path, line);
            unusable++;
            continue;
        }
        *tab = 0;
        struct wish wish;
        const char *why;
        enum verdict verdict = judge(line, tab + 1, 0);
        unusable += verdict == UNUSABLE;
        int two = read_wish(tab + 1, &wish, &why) == 0 && wish.count == 2;
        total[two]++;
        right[two] += verdict == RIGHT_PICTURE;
    }
    fclose(file);
    printf("%ld of %ld right: one thing %ld of %ld, two things %ld of %ld\n", right[0] + right[1], total[0] + total[1], right[0], total[0],
           right[1], total[1]);
    if (unusable) return UNUSABLE;
    if (at_least < 0) at_least = total[0] + total[1];
    return total[0] + total[1] > 0 && right[0] + right[1] >= at_least ? RIGHT_PICTURE : WRONG_PICTURE;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--features") == 0) return (int)judge(argv[2], NULL, 1);
    if ((argc == 3 || (argc == 5 && strcmp(argv[3], "--at-least") == 0)) && strcmp(argv[1], "--list") == 0) {
        char *end = NULL;
        long at_least = argc == 5 ? strtol(argv[4], &end, 10) : -1;
        if (argc == 5 && (*end || end == argv[4] || at_least < 0)) {
            fprintf(stderr, "judge: --at-least %s: a whole number of pictures is wanted\n", argv[4]);
            return UNUSABLE;
        }
        return judge_list(argv[2], at_least);
    }
    if (argc == 3 && argv[1][0] != '-') return (int)judge(argv[1], argv[2], 0);
    fprintf(stderr, "usage: judge PICTURE.png \"PROMPT\" | judge --list FILE [--at-least N] | judge --features PICTURE.png\n");
    return UNUSABLE;
}
