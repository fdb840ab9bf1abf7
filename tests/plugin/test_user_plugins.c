/* test_user_plugins.c - where the user's plugins lie, and the list of those that are disabled: kept whole, whatever
 * stands in it.
 */
#include "harness.h"

#include "base/arena.h"
#include "plugin/user_plugins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char home[600], list[700];

static const char *content(void)
{
    static char text[1000];
    FILE *f = fopen(list, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = '\0';
    if (f) fclose(f);
    return text;
}

static void test_where_they_lie(void)
{
    arena a = {0};
    char wanted[700];
    setenv("XDG_DATA_HOME", "/data", 1), setenv("HOME", "/home", 1);
    CHECK_STR(user_plugins_folder(&a), "/data/kiln/plugins");
    setenv("XDG_DATA_HOME", "data", 1); /* a relative one counts as none */
    CHECK_STR(user_plugins_folder(&a), "/home/.local/share/kiln/plugins");
    setenv("XDG_DATA_HOME", "", 1);
    CHECK_STR(user_plugins_folder(&a), "/home/.local/share/kiln/plugins");
    unsetenv("XDG_DATA_HOME"), setenv("HOME", home, 1);
    snprintf(wanted, sizeof wanted, "%s/.local/share/kiln/plugins", home);
    CHECK_STR(user_plugins_folder(&a), wanted);
    static const char *const none[] = {NULL, "", "here"};
    for (int i = 0; i < 3; i++) {
        error e = {0};
        int changed = 7;
        none[i] ? setenv("HOME", none[i], 1) : unsetenv("HOME");
        CHECK(user_plugins_folder(&a) == NULL);
        CHECK(user_plugins_disabled(&a, "org.example.a", NULL) == NULL);
        CHECK_EQ(user_plugins_disable("org.example.a", NULL, 1, &changed, &e), KILN_ERR_IO);
        CHECK_MSG(strstr(e.message, "there is no home folder to remember it in; set HOME"), "%s", e.message);
    }
    setenv("HOME", home, 1);
    arena_free(&a);
}

static int change(const char *id, const char *path, int disable)
{
    error e = {0};
    int changed = 7;
    CHECK_MSG(user_plugins_disable(id, path, disable, &changed, &e) == KILN_OK, "%s", e.message);
    return changed;
}

static void test_the_list(void)
{
    arena a = {0};
    CHECK_EQ(change("org.example.a", NULL, 0), 0); /* nothing is written for that */
    CHECK(access(list, F_OK) != 0);
    CHECK_EQ(change("org.example.a", "/p/a.so", 1), 1);
    CHECK_EQ(change("org.example.b", NULL, 1), 1);
    CHECK_STR(content(), "org.example.a\t/p/a.so\norg.example.b\t\n");
    CHECK_EQ(change("org.example.a", "/p/a.so", 1), 0);
    CHECK_STR(user_plugins_disabled(&a, "org.example.a", NULL), "org.example.a");
    CHECK_STR(user_plugins_disabled(&a, NULL, "/p/a.so"), "org.example.a"); /* before its id is known */
    CHECK(user_plugins_disabled(&a, NULL, "/p/a") == NULL);
    CHECK(user_plugins_disabled(&a, "org.example", "/p/b.so") == NULL);
    CHECK(user_plugins_disabled(&a, NULL, NULL) == NULL);
    /* Lines of another hand: empty ones go, others stay. */
    FILE *f = fopen(list, "w");
    REQUIRE(f && fputs("\n\norg.example.c\nodd\tx\ty\n\norg.example.a\t/p/a.so", f) >= 0 && fclose(f) == 0);
    CHECK_STR(user_plugins_disabled(&a, "org.example.c", NULL), "org.example.c");
    CHECK_STR(user_plugins_disabled(&a, "org.example.a", NULL), "org.example.a");
    CHECK_EQ(change("org.example.c", NULL, 0), 1);
    CHECK_STR(content(), "odd\tx\ty\norg.example.a\t/p/a.so\n");
    CHECK_EQ(change("org.example.c", NULL, 0), 0);
    CHECK_EQ(change("org.example.a", NULL, 0), 1);
    CHECK_EQ(change("odd", NULL, 0), 1);
    CHECK_STR(content(), "");
    arena_free(&a);
}

static void test_a_list_that_cannot_be_written(void)
{
    error e = {0};
    int changed;
    REQUIRE(unlink(list) == 0 && mkdir(list, 0700) == 0);
    CHECK(user_plugins_disable("org.example.a", NULL, 1, &changed, &e) != KILN_OK);
    CHECK_MSG(strstr(e.message, "disabled"), "%s", e.message);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_where_they_lie), CASE(test_the_list),
                                      CASE(test_a_list_that_cannot_be_written)};
    snprintf(home, sizeof home, "%s/home", test_folder());
    snprintf(list, sizeof list, "%s/.local/share/kiln/plugins/disabled", home);
    if (mkdir(home, 0700) != 0) return 1;
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
