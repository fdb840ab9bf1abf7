/* foreign_names.c - see foreign_names.h. */
#include "param/foreign_names.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

static const struct {
    const char *theirs, *ours;
} samplers[] = {
    {"euler", "euler"},
    {"eulera", "euler_ancestral"},
    {"eulerancestral", "euler_ancestral"},
    {"lms", "lms"},
    {"heun", "heun"},
    {"dpm2", "dpm_2"},
    {"dpm2a", "dpm_2_ancestral"},
    {"dpmfast", "dpm_fast"},
    {"dpmadaptive", "dpm_adaptive"},
    {"dpmpp2sa", "dpmpp_2s_ancestral"},
    {"dpmpp2m", "dpmpp_2m"},
    {"dpmppsde", "dpmpp_sde"},
    {"dpmpp2msde", "dpmpp_2m_sde"},
    {"dpmpp2msdeheun", "dpmpp_2m_sde_heun"},
    {"dpmpp3msde", "dpmpp_3m_sde"},
    {"ddim", "ddim"},
    {"unipc", "uni_pc"},
    {"lcm", "lcm"},
    {"ddpm", "ddpm"},
    {"eulerdiscretescheduler", "euler"},
    {"eulerancestraldiscretescheduler", "euler_ancestral"},
    {"heundiscretescheduler", "heun"},
    {"lmsdiscretescheduler", "lms"},
    {"kdpm2discretescheduler", "dpm_2"},
    {"kdpm2ancestraldiscretescheduler", "dpm_2_ancestral"},
    {"dpmsolvermultistepscheduler", "dpmpp_2m"},
    {"dpmsolversdescheduler", "dpmpp_sde"},
    {"ddimscheduler", "ddim"},
    {"ddpmscheduler", "ddpm"},
    {"lcmscheduler", "lcm"},
    {"unipcmultistepscheduler", "uni_pc"},
};
static const struct {
    const char *theirs, *ours;
} schedulers[] = {
    {"karras", "karras"}, {"exponential", "exponential"}, {"sgmuniform", "sgm_uniform"}, {"beta", "beta"}};

enum { NAME_MAX_LETTERS = 80 };

/* "DPM++ 2M" -> "dpmpp2m" */
static void plain(const char *name, char out[NAME_MAX_LETTERS])
{
    size_t n = 0;
    for (; *name && n + 1 < NAME_MAX_LETTERS; name++)
        if (*name == '+')
            out[n++] = 'p';
        else if (isalnum((unsigned char)*name))
            out[n++] = (char)tolower((unsigned char)*name);
    out[n] = '\0';
}

const char *foreign_sampler(const char *name, const char **scheduler)
{
    char text[NAME_MAX_LETTERS];
    plain(name, text);
    *scheduler = NULL;
    for (size_t i = 0; i < sizeof schedulers / sizeof schedulers[0]; i++) {
        size_t n = strlen(text), ending = strlen(schedulers[i].theirs);
        if (n <= ending || strcmp(text + n - ending, schedulers[i].theirs) != 0) continue;
        text[n - ending] = '\0';
        *scheduler = schedulers[i].ours;
        break;
    }
    const char *bare = strncmp(name, "k_", 2) == 0 ? text + 1 : text; /* k_euler_a: k-diffusion's */
    for (size_t i = 0; i < sizeof samplers / sizeof samplers[0]; i++)
        if (strcmp(text, samplers[i].theirs) == 0 || strcmp(bare, samplers[i].theirs) == 0) return samplers[i].ours;
    return NULL;
}
