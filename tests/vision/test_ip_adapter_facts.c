/* test_ip_adapter_facts.c - what `kiln inspect` and other nodes are told of an IP-Adapter's file: its tokens, how wide
 * they are, and how many cross-attentions it was made for.
 */
#include "ip_adapter_family.h"
#include "vision_kit.h"

static int64_t fact(const kiln_value *facts, const char *key)
{
    const kiln_value_api *v = rig_host()->ability(KILN_VALUE_ABILITY);
    const kiln_value *number = facts ? v->map_get(facts, key) : NULL;
    int64_t n = -1;
    CHECK_MSG(number && v->get_int(number, &n) == KILN_OK, "no fact '%s'", key);
    return n;
}

static void check_facts(const char *name, int64_t tokens, int64_t width, int64_t attentions)
{
    char path[600];
    error e = {0};
    snprintf(path, sizeof path, "%s/tests/golden/ip_adapter/models/ipadapter/%s.safetensors", test_root(), name);
    kiln_weights *set = weights_open(path, &e);
    if (!CHECK_MSG(set != NULL, "%s", e.message)) return;
    kiln_value *v = ip_adapter_family.open(rig_host(), rig_ctx(), set);
    if (CHECK_MSG(v != NULL, "%s: %s", name, rig_message())) {
        const kiln_value *facts = net_of(v, IP_ADAPTER_TYPE)->network->facts;
        CHECK_EQ(fact(facts, "tokens"), tokens);
        CHECK_EQ(fact(facts, "token_width"), width);
        CHECK_EQ(fact(facts, "cross_attentions"), attentions);
    }
    rig_host()->unref(v);
    weights_unref(set);
}

static void test_each_kind_says_what_it_is(void)
{
    check_facts("sd1", 4, 32, 16);
    check_facts("sd1_plus", 5, 32, 16);
    check_facts("sd1_full", 0, 32, 16); /* as many as the encoder gives */
    check_facts("xl", 4, 24, 17);
    check_facts("xl_full", 0, 24, 17);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_each_kind_says_what_it_is)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
