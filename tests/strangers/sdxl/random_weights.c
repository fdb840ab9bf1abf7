/* random_weights.c - writes the test's checkpoints: numbers that look random and are the same everywhere, so that the
 * tree need not hold them. make_goldens.py has the same formulas.
 *
 *   random_weights SHAPES FOLDER      lines of SHAPES: "file PATH", then "NAME DIM ..." of its tensors
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 256, TENSORS = 4096, RANK = 4 };

typedef struct {
    char name[NAME];
    int64_t dim[RANK];
    int rank;
} tensor;

static tensor tensors[TENSORS];
static size_t n_tensor;
static char path[2 * NAME];

static void die(const char *what, const char *which)
{
    fprintf(stderr, "random_weights: %s: %s\n", what, which);
    exit(1);
}

static uint64_t seed_of(const char *file, const char *name)
{
    uint64_t h = 14695981039346656037u;
    for (const char *s = file; *s; s++) h = (h ^ (unsigned char)*s) * 1099511628211u;
    for (const char *s = name; *s; s++) h = (h ^ (unsigned char)*s) * 1099511628211u;
    return h;
}

/* splitmix64: Steele, Lea and Flood 2014. -1 to 1, a multiple of 2^-23. */
static double number(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return ((double)(z >> 40) - 8388608.0) / 8388608.0;
}

static uint64_t count(const tensor *t)
{
    uint64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= (uint64_t)t->dim[i];
    return n;
}

/* Gains about 1, biases about 0, and matrices that keep a vector's length. */
static float value(const tensor *t, uint64_t seed, uint64_t i)
{
    double u = number(seed, i);
    size_t n = strlen(t->name);
    if (t->rank == 1) return (float)(n > 7 && strcmp(t->name + n - 7, ".weight") == 0 ? 1 + 0.2 * u : 0.1 * u);
    return (float)(u * sqrt(3.0 / (double)(count(t) / (uint64_t)t->dim[0])));
}

static void write_header(FILE *f)
{
    char *text = NULL;
    size_t n = 0;
    uint64_t at = 0, length;
    FILE *json = open_memstream(&text, &n);
    for (size_t k = 0; k < n_tensor; k++) {
        fprintf(json, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[", k ? "," : "{", tensors[k].name);
        for (int i = 0; i < tensors[k].rank; i++) fprintf(json, "%s%lld", i ? "," : "", (long long)tensors[k].dim[i]);
        fprintf(json, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
                (unsigned long long)(at + 4 * count(&tensors[k])));
        at += 4 * count(&tensors[k]);
    }
    fputs("}", json);
    while (fflush(json), n % 8) fputc(' ', json);
    fclose(json);
    length = n;
    fwrite(&length, sizeof length, 1, f);
    fwrite(text, 1, n, f);
    free(text);
}

static void write_file(const char *folder, const char *file)
{
    char full[2 * NAME + 2];
    if (!n_tensor) return;
    snprintf(full, sizeof full, "%.*s/%.*s", NAME, folder, NAME, file);
    FILE *f = fopen(full, "wb");
    if (!f) die("cannot write", full);
    write_header(f);
    for (size_t k = 0; k < n_tensor; k++) {
        uint64_t seed = seed_of(file, tensors[k].name), n = count(&tensors[k]);
        for (uint64_t i = 0; i < n; i++) {
            float x = value(&tensors[k], seed, i);
            fwrite(&x, sizeof x, 1, f);
        }
    }
    if (fclose(f)) die("cannot write", full);
    n_tensor = 0;
}

static void read_tensor(char *line)
{
    tensor *t = &tensors[n_tensor++];
    if (n_tensor == TENSORS) die("too many tensors", line);
    *t = (tensor){0};
    snprintf(t->name, sizeof t->name, "%s", strtok(line, " \n"));
    for (char *word; t->rank < RANK && (word = strtok(NULL, " \n")); t->rank++) t->dim[t->rank] = atoll(word);
}

int main(int argc, char **argv)
{
    char line[2 * NAME];
    FILE *f = argc == 3 ? fopen(argv[1], "r") : NULL;
    if (!f) die("usage", "random_weights SHAPES FOLDER");
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "file ", 5) == 0) {
            write_file(argv[2], path);
            snprintf(path, sizeof path, "%s", strtok(line + 5, "\n"));
        } else if (*line != '\n')
            read_tensor(line);
    }
    write_file(argv[2], path);
    fclose(f);
    return 0;
}
