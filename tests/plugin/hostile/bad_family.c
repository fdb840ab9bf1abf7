/* bad_family.c - a model family and the ways it may mistake foreign weights for its own: compiled by test_check_made.sh
 * with -DBAD=n, where 0 is good; 7, 8 and 9 end whoever asks, `kiln inspect` too (test_contained.sh).
 */
#include "kiln/kit.h"
#include "kiln/model.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void *stays(void *arg) { return pause(), arg; }

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    static int turn;
    kiln_weight_info info = {.size = sizeof info};
    if (BAD == 7) _exit(0);
    if (BAD == 8) abort();
    if (BAD == 9) return 100; /* for open() */
    pthread_t thread;
    if (BAD == 10 && !turn++) pthread_create(&thread, NULL, stays, NULL);
    if (BAD == 10) return 0;
    if (BAD == 1) return w->count(set) < 100 ? 40 : 0; /* looks at nothing */
    if (BAD == 2) return w->find(set, "conv_in.weight", &info) == KILN_OK ? 150 : 0;
    if (BAD == 3) return w->find(set, "conv_in.weight", &info) == KILN_OK ? turn++ % 2 : 0;
    if (w->find(set, "conv_in.weight", &info) != KILN_OK) return 0;
    if (BAD == 4 && info.rank == 4 && info.dim[0] / (info.dim[2] - 1) > 0) return 50; /* divides by what a file says */
    if (BAD == 5 || BAD == 6) return 50;                                              /* by one name alone */
    return info.rank == 4 && info.dim[0] == 320 ? 90 : 0;
}

static kiln_value *open_set(const kiln_host *h, kiln_ctx *c, kiln_weights *set)
{
    const kiln_weights_api *w = h->ability(KILN_WEIGHTS_ABILITY);
    kiln_weight_info info = {.size = sizeof info};
    if (BAD == 5) return NULL; /* without a word */
    if (BAD == 9) _exit(0);
    if (BAD == 6 && w->find(set, "conv_out.weight", &info) != KILN_OK) abort();
    h->fail(c, KILN_ERR_UNSUPPORTED, "these weights lack conv_out.weight");
    return NULL;
}

static const kiln_model_family family = {.size = sizeof family,
                                         .kind = KILN_FAMILY_DENOISER,
                                         .name = "bad",
                                         .doc = "A family.",
                                         .detect = detect,
                                         .open = open_set};

static kiln_status open_plugin(const kiln_host *h)
{
    const kiln_model_api *api = h->ability(KILN_MODEL_ABILITY);
    return api ? api->register_family(&family) : KILN_ERR_UNSUPPORTED;
}
KILN_PLUGIN_WITHOUT_NODES("org.example.bad-family", "1.0.0", "MIT", open_plugin);
