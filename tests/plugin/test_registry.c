/* test_registry.c - the open tables: rows without what they need are refused and nobody finds them; names are taken
 * once, another plugin's goes by "owner/name"; what a plugin registered goes with it.
 */
#include "harness.h"

#include "base/memory_alloc.h"
#include "kiln/model.h"
#include "plugin/abilities.h"
#include "plugin/ctx.h"

#include <string.h>

static kiln_status no_run(const kiln_sampling *s) { return (void)s, KILN_OK; }
static size_t no_make(const kiln_schedule_input *in, double *out, size_t n) { return (void)in, (void)out, (void)n, 0; }

static kiln_value *to_plain(kiln_ctx *c, const kiln_value *v) { return (void)c, (void)v, NULL; }
static kiln_value *from_plain(kiln_ctx *c, const kiln_value *v) { return (void)c, (void)v, NULL; }

static const kiln_sampler whole = {.size = sizeof whole, .name = "registry test", .run = no_run};
static const kiln_schedule schedule = {.size = sizeof schedule, .name = "registry test", .make = no_make};

static void refused(kiln_status status, const char *says)
{
    CHECK(status != KILN_OK);
    CHECK_MSG(strstr(registry_fault(), says) != NULL, "'%s' does not say '%s'", registry_fault(), says);
    registry_owner_set("org.test", NULL); /* the first fault of an owner stays */
}

static void test_rows_without_what_they_need(void)
{
    static char longest[130];
    memset(longest, 'x', 129);
    const kiln_sampler no_function = {.size = sizeof whole, .name = "no run"},
                       no_name = {.size = sizeof whole, .run = no_run},
                       empty = {.size = sizeof whole, .name = "", .run = no_run},
                       too_long = {.size = sizeof whole, .name = longest, .run = no_run};
    const kiln_schedule no_maker = {.size = sizeof schedule, .name = "no make"},
                        nameless = {.size = sizeof schedule, .make = no_make};
    const size_t mark = registry_mark();
    registry_owner_set("org.test", NULL);
    refused(sampler_api.register_sampler(NULL), "a sampler without a usable name");
    refused(sampler_api.register_sampler(&no_function), "a sampler without a usable name");
    refused(sampler_api.register_sampler(&no_name), "a sampler without a usable name");
    refused(sampler_api.register_sampler(&empty), "a sampler without a usable name");
    refused(sampler_api.register_sampler(&too_long), "a sampler without a usable name");
    refused(sampler_api.register_schedule(NULL), "a schedule without a usable name");
    refused(sampler_api.register_schedule(&no_maker), "a schedule without a usable name");
    refused(sampler_api.register_schedule(&nameless), "a schedule without a usable name");
    refused(stored_type_register(NULL), "a stored type without");
    const kiln_stored_type stored = {
        .size = sizeof stored, .type = "MINE", .revision = 1, .to_plain = to_plain, .from_plain = from_plain};
    kiln_stored_type one = stored;
    one.type = NULL, refused(stored_type_register(&one), "a stored type without");
    one = stored, one.to_plain = NULL, refused(stored_type_register(&one), "a stored type without");
    one = stored, one.from_plain = NULL, refused(stored_type_register(&one), "a stored type without");
    one = stored, one.revision = 0, refused(stored_type_register(&one), "a stored type without");
    static const char *const handles[] = {"MODEL", "CLIP", "VAE"};
    for (int i = 0; i < 3; i++)
        one = stored, one.type = handles[i],
        refused(stored_type_register(&one), "the engine's own handles are never stored");
    refused(ability_provide(NULL, &(uint32_t){3}), "ability '?': its table does not start with its size");
    refused(ability_provide("org.test/2", NULL), "an ability without a usable name");
    refused(ability_provide("org.test/1", &(uint32_t){3}), "does not start with its size");
    refused(ability_provide(NULL, &(uint32_t){4}), "an ability without a usable name");
    refused(ability_provide(KILN_SAMPLER_ABILITY, &(uint32_t){4}), "the engine's own");
    CHECK_EQ(registry_mark(), mark);
    CHECK_EQ(sampler_api.sampler_count(), 0);
    CHECK(!sampler_api.sampler("no run") && !sampler_api.sampler_at(0) && !sampler_api.schedule_at(0));
    registry_owner_set(NULL, NULL);
}

static void test_outside_open(void)
{
    registry_owner_set(NULL, NULL);
    CHECK_EQ(sampler_api.register_sampler(&whole), KILN_ERR_BUG);
    CHECK_STR(registry_fault(), "sampler 'registry test' registered outside open()");
    CHECK_EQ(registry_fail(KILN_ERR_INVALID, "a second fault"), KILN_ERR_INVALID); /* the first one stays */
    CHECK_STR(registry_fault(), "sampler 'registry test' registered outside open()");
    CHECK_EQ(sampler_api.sampler_count(), 0);
}

static void test_a_name_is_taken_once(void)
{
    const size_t mark = registry_mark();
    registry_owner_set("org.first", "data");
    CHECK_STR(registry_data(), "data");
    CHECK_EQ(sampler_api.register_sampler(&whole), KILN_OK);
    CHECK_EQ(sampler_api.register_schedule(&schedule), KILN_OK); /* another kind of row */
    refused(sampler_api.register_sampler(&whole), "sampler 'registry test' is already registered by org.first");
    CHECK(!registry_clash(0));

    registry_owner_set("org.second", NULL);
    CHECK_EQ(sampler_api.register_sampler(&whole), KILN_OK);
    CHECK_EQ(sampler_api.register_schedule(&schedule), KILN_OK);
    CHECK_STR(registry_clash(0), "sampler 'registry test' is already registered by org.first");
    CHECK_STR(registry_clash(1), "schedule 'registry test' is already registered by org.first");
    CHECK_STR(registry_clash_name(1), "registry test");
    CHECK(!registry_clash(2) && !registry_clash_name(2));
    CHECK(sampler_api.sampler("registry test") == &whole);
    const kiln_sampler *own = sampler_api.sampler("org.second/registry test");
    REQUIRE(own && own != &whole);
    CHECK(own->run == no_run && strcmp(own->name, "org.second/registry test") == 0);
    CHECK_STR(registry_owner_of("sampler", "registry test"), "org.first");
    CHECK_STR(registry_owner_of("schedule", "org.second/registry test"), "org.second");
    CHECK(!registry_owner_of("sampler", "nobody's") && !registry_owner_of("clip", "registry test"));
    CHECK_STR(sampler_api.plugin_of(&whole), "org.first");
    CHECK_STR(sampler_api.plugin_of(own), "org.second");
    CHECK_STR(sampler_api.plugin_of(sampler_api.schedule("org.second/registry test")), "org.second");
    CHECK(!sampler_api.plugin_of(&mark) && !sampler_api.plugin_of(NULL));
    CHECK_STR(registry_name("sampler", 0), "registry test");
    CHECK_STR(registry_name("sampler", 1), "org.second/registry test");
    CHECK(!registry_name("sampler", 2) && !registry_name("clip", 0));
    CHECK(registry_has_rows_of("org.first") && registry_has_rows_of("org.second") &&
          !registry_has_rows_of("org.third"));
    CHECK_EQ(sampler_api.sampler_count(), 2);
    CHECK_EQ(sampler_api.schedule_count(), 2);
    registry_owner_set(NULL, NULL);
    registry_rewind(mark);
    CHECK(!sampler_api.sampler("registry test") && !sampler_api.schedule("registry test"));
    CHECK_EQ(sampler_api.sampler_count() + sampler_api.schedule_count(), 0);
}

/* A clash makes a copy under another name: not of a row that does not reach its own name, and not without memory. */
static void test_a_copy_that_cannot_be_made(void)
{
    const size_t mark = registry_mark();
    kiln_sampler broken = whole;
    broken.size = offsetof(kiln_sampler, name) + 1;
    registry_owner_set("org.first", NULL);
    CHECK_EQ(sampler_api.register_sampler(&whole), KILN_OK);
    registry_owner_set("org.second", NULL);
    refused(sampler_api.register_sampler(&broken), "a sampler without a usable size");
    for (int64_t k = 0; k < 2; k++) {
        registry_owner_set("org.fourth", NULL);
        mem_fail_at(k, 0);
        CHECK_EQ(sampler_api.register_sampler(&whole), KILN_ERR_NOMEM);
        mem_fail_at(-1, 0);
        CHECK(!sampler_api.sampler("org.fourth/registry test"));
    }
    registry_owner_set(NULL, NULL);
    registry_rewind(mark);
}

static int detect_5(const kiln_weights_api *w, const kiln_weights *set) { return (void)w, (void)set, 5; }
static int detect_7(const kiln_weights_api *w, const kiln_weights *set) { return (void)w, (void)set, 7; }
static int detect_0(const kiln_weights_api *w, const kiln_weights *set) { return (void)w, (void)set, 0; }
static kiln_value *no_value(const kiln_host *h, kiln_ctx *c, kiln_weights *w)
{
    return (void)h, (void)c, (void)w, NULL;
}

/* The highest score wins, of equal ones the first; 0 is no family. */
static void test_which_family_it_is(void)
{
    const kiln_model_api *models = engine_host.ability(KILN_MODEL_ABILITY);
    const size_t mark = registry_mark();
    const kiln_model_family f[] = {
        {.size = sizeof f[0], .name = "none", .kind = "toy", .detect = detect_0, .open = no_value},
        {.size = sizeof f[0], .name = "five", .kind = "toy", .detect = detect_5, .open = no_value},
        {.size = sizeof f[0], .name = "seven", .kind = "toy", .detect = detect_7, .open = no_value},
        {.size = sizeof f[0], .name = "also seven", .kind = "toy", .detect = detect_7, .open = no_value},
        {.size = sizeof f[0], .name = "other", .kind = "game", .detect = detect_7, .open = no_value}};
    const kiln_model_family wrong[] = {
        {.size = sizeof f[0], .name = "w", .kind = "", .detect = detect_0, .open = no_value},
        {.size = sizeof f[0], .name = "w", .kind = "toy", .open = no_value},
        {.size = sizeof f[0], .name = "w", .kind = "toy", .detect = detect_0},
        {.size = sizeof f[0], .name = "w", .detect = detect_0, .open = no_value},
        {.size = offsetof(kiln_model_family, open), .name = "w", .kind = "toy", .detect = detect_0, .open = no_value}};
    registry_owner_set("org.test", NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        refused(models->register_family(&wrong[i]), "a model family without kind");
    refused(models->register_family(NULL), "a model family without kind");
    for (size_t i = 0; i < 5; i++) {
        CHECK_EQ(models->register_family(&f[i]), KILN_OK);
        const kiln_model_family *found = models->detect("toy", NULL);
        CHECK(found == (i == 0 ? NULL : i == 1 ? &f[1] : &f[2]));
    }
    CHECK(models->detect("game", NULL) == &f[4] && !models->detect("sport", NULL));
    CHECK(models->family_at("toy", 3) == &f[3] && !models->family_at("toy", 4) &&
          models->family_at("game", 0) == &f[4]);
    CHECK_STR(registry_family_owner(4), "org.test");
    CHECK(!registry_family_owner(5));
    registry_owner_set(NULL, NULL);
    registry_rewind(mark);
}

static void test_abilities_of_plugins(void)
{
    static const uint32_t table[] = {8, 1};
    const size_t mark = registry_mark();
    char id[] = "org.test.numbers/1";
    registry_owner_set("org.test", NULL);
    CHECK_EQ(ability_provide(id, table), KILN_OK);
    id[0] = 'x'; /* the name is the registry's own */
    CHECK(ability_provided("org.test.numbers/1") == table && !ability_provided(id) && !ability_provided(NULL));
    refused(ability_provide("org.test.numbers/1", table), "already registered by org.test");
    CHECK_STR(registry_provider(0), "org.test");
    CHECK(!registry_provider(1));
    registry_owner_set(NULL, NULL);
    registry_rewind(mark);
    CHECK(!ability_provided("org.test.numbers/1"));
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_rows_without_what_they_need), CASE(test_outside_open),
                                      CASE(test_a_name_is_taken_once),        CASE(test_a_copy_that_cannot_be_made),
                                      CASE(test_abilities_of_plugins),        CASE(test_which_family_it_is)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
