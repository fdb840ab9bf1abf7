/* test_context_windows.c - which pictures a window has, what they weigh and whose noise they take, against what ComfyUI
 * and torch give (tests/golden/context_windows.txt, by scripts/golden/context_windows.py); samplings in windows.
 */
#include "context_windows.h"
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4200 };

static int64_t x[MOST], inputs[MOST], to[MOST];
static double weight[MOST];
static kiln_window room(void)
{
    return (kiln_window){.size = sizeof(kiln_window), .x = x, .inputs = inputs, .to = to, .weight = weight};
}

/* ---- against ComfyUI ---- */

typedef struct {
    context_windows by;
    int64_t pictures, step;
    size_t i;
    char text[120];
} reading;

static void check_count(const reading *r)
{
    kiln_window w = room();
    if (r->text[0])
        CHECK_MSG(context_windows_at(&r->by, r->pictures, r->step, r->i, &w) == 0, "%s: %zu windows", r->text, r->i);
}

static void begin_case(reading *r, const char *line)
{
    int schedule, fuse, closed;
    long long n[5];
    *r = (reading){.i = 0};
    snprintf(r->text, sizeof r->text, "%.100s", line);
    r->text[strcspn(r->text, "\n")] = '\0';
    CHECK_EQ(sscanf(line, "case %d %d %lld %lld %lld %d %lld %lld", &schedule, &fuse, n, n + 1, n + 2, &closed, n + 3,
                    n + 4),
             8);
    r->by = (context_windows){
        .length = n[0], .overlap = n[1], .stride = n[2], .schedule = schedule, .fuse = fuse, .closed_loop = closed};
    r->pictures = n[3], r->step = n[4];
}

/* What the kiln_window gives each picture, in the line's order. */
static void check_window(reading *r, const char *line)
{
    kiln_window w = room();
    size_t i = r->i++;
    if (!CHECK_MSG(context_windows_at(&r->by, r->pictures, r->step, i, &w) == 1, "%s: no window %zu", r->text, i))
        return;
    size_t given = 0, counted = 0;
    char *end;
    for (uint32_t k = 0; k < w.n; k++) given += w.to[k] >= 0;
    for (line += strlen("window"); *line == ' ';) {
        long long index = strtoll(line, &end, 10);
        double want = strtod(end + 1, &end);
        int found = 0;
        for (uint32_t k = 0; k < w.n; k++)
            if (w.to[k] == index)
                found = w.x[k] == index && w.inputs[k] == index && fabs(w.weight[k] - want) <= 2e-6 * want + 1e-30;
        CHECK_MSG(found, "%s: window %zu, picture %lld of weight %g", r->text, r->i - 1, index, want);
        counted++, line = end;
    }
    CHECK_MSG(given == counted, "%s: window %zu has %zu pictures, not %zu", r->text, r->i - 1, given, counted);
}

static void check_noise(const char *line)
{
    long long n[3];
    unsigned long long seed;
    int64_t from[128];
    int at = 0;
    CHECK_EQ(sscanf(line, "noise %lld %lld %lld %llu :%n", n, n + 1, n + 2, &seed, &at), 4);
    REQUIRE(context_windows_noise(&(context_windows){.length = n[0], .overlap = n[1]}, n[2], seed, from));
    char *end = (char *)(uintptr_t)line + at;
    for (int64_t i = 0; i < n[2]; i++) CHECK_EQ(from[i], strtoll(end, &end, 10));
}

static void test_as_in_comfyui(void)
{
    static char line[8192];
    char path[600];
    reading r = {.i = 0};
    size_t windows = 0, refused = 0, noises = 0;
    snprintf(path, sizeof path, "%s/tests/golden/context_windows.txt", getenv("KILN_ROOT") ? getenv("KILN_ROOT") : ".");
    FILE *f = fopen(path, "r");
    REQUIRE(f != NULL);
    while (fgets(line, sizeof line, f)) {
        kiln_window w = room();
        if (strncmp(line, "case", 4) == 0)
            check_count(&r), begin_case(&r, line);
        else if (strncmp(line, "window", 6) == 0)
            check_window(&r, line), windows++;
        else if (strncmp(line, "noise", 5) == 0)
            check_noise(line), noises++;
        else { /* ComfyUI fails there */
            CHECK_MSG(context_windows_at(&r.by, r.pictures, r.step, r.i, &w) == -1, "%s: window %zu is taken", r.text,
                      r.i);
            r.text[0] = '\0', refused++;
        }
    }
    fclose(f);
    CHECK(windows > 500 && refused > 5 && noises == 4);
}

/* ---- what is kiln's to say ---- */

static void test_few_pictures_are_whole(void)
{
    kiln_window w = room();
    context_windows by = {.length = 4, .overlap = 1, .stride = 1};
    CHECK_EQ(context_windows_at(&by, 4, 0, 0, &w), 0);
    CHECK_EQ(context_windows_at(&by, 5, 0, 0, &w), 1);
    CHECK_EQ(context_windows_at(&by, 5, 0, 1, &w), 1);
    CHECK_EQ(context_windows_at(&by, 5, 0, 2, &w), 0);
}

static void test_what_is_seen_beside(void)
{
    kiln_window w = room();
    context_windows by = {
        .length = 3, .overlap = 1, .stride = 1, .anchored = 1, .latents = {1, {0}}, .inputs = {2, {1, 7}}};
    CHECK_EQ(context_windows_at(&by, 6, 0, 0, &w), 1); /* nothing is before the first */
    CHECK(w.n == 3 && w.x[0] == 0 && w.to[0] == 0 && w.inputs[1] == 1);
    CHECK_EQ(context_windows_at(&by, 6, 0, 1, &w), 1); /* 1, and 2 3 4 */
    CHECK(w.n == 4 && w.to[0] == -1 && w.to[1] == 2 && w.to[3] == 4);
    CHECK(w.x[0] == 0 && w.x[1] == 2 && w.inputs[0] == 1 && w.inputs[1] == 1 && w.inputs[2] == 3);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_as_in_comfyui), CASE(test_few_pictures_are_whole),
                                      CASE(test_what_is_seen_beside)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
