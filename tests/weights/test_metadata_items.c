/* test_metadata_items.c - items of a value of a file's metadata: texts of an array in any order, numbers of every width
 * at odd addresses, and what has no such item.
 */
#include "harness.h"

#include "weights/weights.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static unsigned char data[400];
static size_t used;

static void put(uint64_t v, size_t width)
{
    for (size_t i = 0; i < width; i++) data[used++] = (unsigned char)(v >> (8 * i));
}

static kiln_weight_item item_of(kiln_weight_value *v, size_t i)
{
    kiln_weight_item item = {.size = sizeof item};
    CHECK_EQ(weights_metadata_item(v, i, &item), KILN_OK);
    return item;
}

static void test_texts_in_any_order(void)
{
    static const char *const texts[] = {"", "one", "two\0three", "a longer text than the others", "x"};
    static const size_t n[] = {0, 3, 9, 29, 1};
    static const size_t order[] = {0, 1, 2, 3, 4, 4, 2, 2, 0, 3, 1};
    used = 1; /* no text has to be aligned */
    for (size_t i = 0; i < 5; i++) put(n[i], 8), memcpy(data + used, texts[i], n[i]), used += n[i];
    kiln_weight_value v = {.size = sizeof v, .kind = KILN_META_STRING, .count = 5, .data = data + 1, .bytes = used - 1};
    for (size_t k = 0; k < sizeof order / sizeof order[0]; k++) {
        kiln_weight_item item = item_of(&v, order[k]);
        CHECK_MSG(item.n == n[order[k]] && memcmp(item.text, texts[order[k]], item.n) == 0, "text %zu: '%.*s'",
                  order[k], (int)item.n, item.text);
    }
    kiln_weight_item item = {.size = sizeof item};
    CHECK_EQ(weights_metadata_item(&v, 5, &item), KILN_ERR_INVALID);
    v = (kiln_weight_value){
        .size = sizeof v, .kind = KILN_META_STRING, .count = 1, .data = "plain", .bytes = 5, .plain = 1};
    CHECK(item_of(&v, 0).n == 5 && memcmp(item_of(&v, 0).text, "plain", 5) == 0);
    CHECK_EQ(weights_metadata_item(&v, 1, &item), KILN_ERR_INVALID);
}

static void test_numbers_of_every_width(void)
{
    for (size_t width = 1; width <= 8; width *= 2) {
        const uint64_t highest = width == 8 ? UINT64_MAX : ((uint64_t)1 << (8 * width)) - 1;
        used = 1;
        put(5, width), put(highest, width), put(highest / 2 + 1, width);
        kiln_weight_value v = {.size = sizeof v,
                               .kind = KILN_META_INT,
                               .width = (uint32_t)width,
                               .count = 3,
                               .data = data + 1,
                               .bytes = used - 1};
        CHECK_EQ(item_of(&v, 0).integer, 5);
        CHECK_EQ(item_of(&v, 1).integer, -1);
        CHECK_EQ(item_of(&v, 2).integer, -(int64_t)(highest / 2) - 1);
        CHECK(item_of(&v, 1).number == -1 && !item_of(&v, 1).text);
        v.kind = KILN_META_UINT;
        CHECK_EQ(item_of(&v, 1).integer, (int64_t)highest);
        CHECK(item_of(&v, 1).number == (double)highest);
        kiln_weight_item item = {.size = sizeof item};
        CHECK_EQ(weights_metadata_item(&v, 3, &item), KILN_ERR_INVALID);
    }
    used = 1;
    put(0x3f800000, 4), put(0xc0200000, 4);
    kiln_weight_value v = {
        .size = sizeof v, .kind = KILN_META_FLOAT, .width = 4, .count = 2, .data = data + 1, .bytes = 8};
    CHECK(item_of(&v, 0).number == 1 && item_of(&v, 1).number == -2.5);
    used = 1;
    put(0x3ff8000000000000, 8), put(0xbfd0000000000000, 8);
    v = (kiln_weight_value){
        .size = sizeof v, .kind = KILN_META_FLOAT, .width = 8, .count = 2, .data = data + 1, .bytes = 16};
    CHECK(item_of(&v, 0).number == 1.5 && item_of(&v, 1).number == -0.25);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_texts_in_any_order), CASE(test_numbers_of_every_width)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
