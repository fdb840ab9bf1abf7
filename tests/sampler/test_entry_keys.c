/* test_entry_keys.c - a key of a conditioning's entry that nothing reads is said once. */
#include "entry_keys.h"
#include "harness.h"

#include <stdio.h>
#include <string.h>

static int said;
static char last[400];

static void hear(int level, const char *text)
{
    said += level == KILN_LOG_WARN;
    snprintf(last, sizeof last, "%s", text);
}

static const kiln_host host = {.size = sizeof host, .log = hear};

static void test_said_once(void)
{
    entry_keys keys = {0};
    said = 0;
    for (int i = 0; i < 3; i++)
        entry_keys_meet(&keys, &(entry_key){.key = "wobble", .what = "positive", .family = "f"});
    entry_keys_say(&keys, &host);
    CHECK_EQ(said, 1);
    CHECK_STR(last, "positive: the conditioning's 'wobble' is used by nothing: the model (f) has no such input");
    /* Another conditioning of the same sampling, read later. */
    entry_keys_meet(&keys, &(entry_key){.key = "wobble", .what = "negative", .family = "g"});
    entry_keys_say(&keys, &host);
    CHECK_EQ(said, 1);
}

static void test_one_reader_is_enough(void)
{
    entry_keys keys = {0};
    said = 0;
    entry_keys_meet(&keys, &(entry_key){.key = "score", .what = "positive", .family = "base"});
    entry_keys_meet(&keys, &(entry_key){.key = "score", .what = "positive", .family = "refiner", .wanted = 1});
    entry_keys_meet(&keys, &(entry_key){.key = "score", .what = "negative", .family = "base"});
    entry_keys_say(&keys, &host);
    CHECK_EQ(said, 0);
}

static void test_more_than_there_is_room_for(void)
{
    static char names[ENTRY_KEYS_MAX + 8][16];
    entry_keys keys = {0};
    said = 0;
    for (int i = 0; i < ENTRY_KEYS_MAX + 8; i++) {
        snprintf(names[i], sizeof names[i], "key%d", i);
        entry_keys_meet(&keys, &(entry_key){.key = names[i], .what = "positive", .family = "f"});
    }
    entry_keys_say(&keys, &host);
    CHECK_EQ(said, ENTRY_KEYS_MAX);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_said_once), CASE(test_one_reader_is_enough),
                                      CASE(test_more_than_there_is_room_for)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
