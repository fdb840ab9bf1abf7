/* Says whether a picture shows what its prompt asked for, from the pixels alone.
 *
 *     judge PICTURE.png "a red circle to the left of a blue square"     one picture
 *     judge --list FILE [--at-least N]                                  lines of PICTURE<tab>PROMPT
 *     judge --features PICTURE.png                                      the numbers behind the shapes
 *     judge --difference A.png B.png                                    mean difference of their numbers, of 255
 *     judge --rms A.png B.png                                           root of the mean square of the same
 *     judge --colour-error FILE                                         the same lines: colours against the named ones
 *     judge --overlap A.png B.png                                       intersection over union of what is no ground
 *     judge --line-overlap A.png B.png                                  the same of white lines, widened by a pixel
 *
 * Everything the prompt names is checked: the number of things, each shape and colour, the relation by centroids, and
 * size and background when they are named. A picture's colour error is the mean over its things of how far their
 * insides (pixels two or more from the edge) are from the exact colour they are nearest to, of 255; the list's is the
 * mean over its pictures, and one that shows nothing makes the list unusable. Exit status: 0 right (in a list: at least
 * N right, by default all), 1 wrong, 2 not usable (arguments, files). The grammar is that of docs/models/shapes.md. */
#include "wish.h"

#include <errno.h>
#include <math.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 4096 };
enum verdict { RIGHT_PICTURE = 0, WRONG_PICTURE = 1, UNUSABLE = 2 };

static const char *name(const char *const *names, int at) { return at < 0 ? "unclear" : names[at]; }

static void print_seen(const struct sight *seen, int features)
{
    for (int i = 0; i < seen->count && i < SIGHT_MAX_THINGS; i++) {
        const struct thing *t = &seen->things[i];
        printf("%s%s %s %s at %.0f,%.0f", i ? "; " : "", name(sight_size_names, t->size),
               name(sight_colour_names, t->colour), name(sight_shape_names, t->shape), t->x, t->y);
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
    fprintf(stderr, "judge: %s: %s\n", path,
            image.message[0] ? image.message : "larger than 4096x4096 or out of memory");
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
    if (prompt && wish_read(prompt, &wish, &why)) {
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
    enum verdict verdict = prompt && !wish_granted(&wish, &seen) ? WRONG_PICTURE : RIGHT_PICTURE;
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
        int two = wish_read(tab + 1, &wish, &why) == 0 && wish.count == 2;
        total[two]++;
        right[two] += verdict == RIGHT_PICTURE;
    }
    fclose(file);
    printf("%ld of %ld right: one thing %ld of %ld, two things %ld of %ld\n", right[0] + right[1], total[0] + total[1],
           right[0], total[0], right[1], total[1]);
    if (unusable) return UNUSABLE;
    if (at_least < 0) at_least = total[0] + total[1];
    return total[0] + total[1] > 0 && right[0] + right[1] >= at_least ? RIGHT_PICTURE : WRONG_PICTURE;
}

/* The picture's colour error, or -1 after a message. */
static double colour_error(const char *path)
{
    struct picture picture;
    struct sight seen;
    uint8_t *pixels;
    double sum = 0;
    int things = 0;
    if (load(path, &picture, &pixels)) return -1;
    if (sight_look(&picture, &seen)) seen.count = 0;
    free(pixels);
    for (int i = 0; i < seen.count && i < SIGHT_MAX_THINGS; i++) {
        if (seen.things[i].colour_error < 0) continue;
        sum += seen.things[i].colour_error;
        things++;
    }
    if (things == 0) fprintf(stderr, "judge: %s: shows nothing whose colour could be measured\n", path);
    return things ? sum / things : -1;
}

static enum verdict colour_errors(const char *path)
{
    char line[LINE];
    double sum = 0;
    long count = 0;
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "judge: %s: %s\n", path, strerror(errno));
        return UNUSABLE;
    }
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\t\r\n")] = 0;
        if (!line[0] || line[0] == '#') continue;
        double error = colour_error(line);
        if (error < 0) {
            fclose(file);
            return UNUSABLE;
        }
        printf("%s %.3f\n", line, error);
        sum += error;
        count++;
    }
    fclose(file);
    if (count == 0) {
        fprintf(stderr, "judge: %s: names no picture\n", path);
        return UNUSABLE;
    }
    printf("colour error of %ld pictures: %.3f\n", count, sum / (double)count);
    return RIGHT_PICTURE;
}

static double difference(const struct picture picture[2])
{
    double sum = 0;
    size_t n = (size_t)picture[0].width * (size_t)picture[0].height * 3;
    for (size_t i = 0; i < n; i++) sum += abs(picture[0].rgb[i] - picture[1].rgb[i]);
    return sum / (double)n;
}

static double rms_difference(const struct picture picture[2])
{
    double sum = 0;
    size_t n = (size_t)picture[0].width * (size_t)picture[0].height * 3;
    for (size_t i = 0; i < n; i++) {
        double off = picture[0].rgb[i] - picture[1].rgb[i];
        sum += off * off;
    }
    return sqrt(sum / (double)n);
}

/* 1: a pixel at most one away is white: its green is above the middle. */
static int is_near_white(const struct picture *p, int x, int y)
{
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++) {
            int u = x + dx, v = y + dy;
            if (u >= 0 && v >= 0 && u < p->width && v < p->height &&
                p->rgb[((size_t)v * (size_t)p->width + (size_t)u) * 3 + 1] > 127)
                return 1;
        }
    return 0;
}

/* 1: a pixel differs by more than a fifth in some channel from the picture's corner, which shows the ground. */
static int is_thing(const struct picture *p, int x, int y)
{
    const uint8_t *at = p->rgb + ((size_t)y * (size_t)p->width + (size_t)x) * 3;
    for (int c = 0; c < 3; c++)
        if (abs(at[c] - p->rgb[c]) > 51) return 1;
    return 0;
}

/* Intersection over union of the pixels that count; 1 where none does in either. */
static double overlap(const struct picture picture[2], int (*counts)(const struct picture *, int x, int y))
{
    long both = 0, either = 0;
    for (int y = 0; y < picture[0].height; y++)
        for (int x = 0; x < picture[0].width; x++) {
            int a = counts(&picture[0], x, y), b = counts(&picture[1], x, y);
            both += a && b;
            either += a || b;
        }
    return either ? (double)both / (double)either : 1;
}

static double line_overlap(const struct picture picture[2]) { return overlap(picture, is_near_white); }

static double thing_overlap(const struct picture picture[2]) { return overlap(picture, is_thing); }

static enum verdict compare(const char *const path[2], double (*measure)(const struct picture picture[2]))
{
    struct picture picture[2];
    uint8_t *pixels[2] = {NULL, NULL};
    enum verdict verdict = UNUSABLE;
    if (load(path[0], &picture[0], &pixels[0]) == 0 && load(path[1], &picture[1], &pixels[1]) == 0) {
        if (picture[0].width != picture[1].width || picture[0].height != picture[1].height)
            fprintf(stderr, "judge: pictures of different sizes\n");
        else {
            printf("%.4f\n", measure(picture));
            verdict = RIGHT_PICTURE;
        }
    }
    free(pixels[0]);
    free(pixels[1]);
    return verdict;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--difference") == 0)
        return (int)compare((const char *const[2]){argv[2], argv[3]}, difference);
    if (argc == 4 && strcmp(argv[1], "--rms") == 0)
        return (int)compare((const char *const[2]){argv[2], argv[3]}, rms_difference);
    if (argc == 4 && strcmp(argv[1], "--overlap") == 0)
        return (int)compare((const char *const[2]){argv[2], argv[3]}, thing_overlap);
    if (argc == 4 && strcmp(argv[1], "--line-overlap") == 0)
        return (int)compare((const char *const[2]){argv[2], argv[3]}, line_overlap);
    if (argc == 3 && strcmp(argv[1], "--colour-error") == 0) return (int)colour_errors(argv[2]);
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
    fprintf(stderr,
            "usage: judge PICTURE.png \"PROMPT\" | judge --list FILE [--at-least N] | judge --features "
            "PICTURE.png | judge --difference A.png B.png | judge --rms A.png B.png | judge --overlap A.png B.png | "
            "judge --line-overlap A.png B.png | judge --colour-error FILE\n");
    return UNUSABLE;
}
