/* kiln.hpp - plugins in C++17: a node from rows and a lambda, values that let go of themselves, errors as exceptions.
 * Header only, optional; over plugin.h and value.h, of which it changes nothing.
 *
 *     struct gain_params {
 *         double gain = 1;                                             // what a parameter is when nobody says it
 *     };
 *     static const auto gain =
 *         kiln::node<gain_params>("ImageGain", "Image Gain", "image", "Multiplies a picture by a factor.")
 *             .in("image", "IMAGE", "Picture to scale.")
 *             .out("IMAGE", "IMAGE", "The scaled picture.")
 *             .param("gain", &gain_params::gain, {0, 16, 0.01}, "The factor.")
 *             .run([](kiln::call &c, const gain_params &p) {
 *                 auto from = c.tensor<const float>(0);
 *                 auto to = c.new_tensor<float>(0, from.shape());      // output 0
 *                 if (c.estimating()) return;
 *                 for (size_t i = 0; i < from.size(); i++) to[i] = from[i] * float(p.gain);
 *             });
 *     KILN_CPP_PLUGIN("org.example.gain", "1.0.0", "MIT", gain)
 *
 * A plugin's functions must let no exception out: run() catches all. kiln::error becomes a message of the node,
 * std::bad_alloc KILN_ERR_NOMEM, what progress() throws KILN_CANCELLED, any other a message with its what().
 *
 * Left out: samplers, models and ops, whose tables C++20 writes as C does (see kiln plugin new --lang c++); the
 * lifetime of a call. Nothing of a call may be kept after run() has returned.
 */
#ifndef KILN_KILN_HPP
#define KILN_KILN_HPP

#include "value.h"

#include <cstdarg>
#include <cstdio>
#include <deque>
#include <exception>
#include <initializer_list>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace kiln
{

/* ---- errors ---- */

/* Ends the call with this status. The text is one sentence that names place and remedy; "": there is a message already.
 */
class error : public std::exception
{
  public:
    explicit error(kiln_status status, std::string text = "") : status_(status), text_(std::move(text)) {}
    const char *what() const noexcept override { return text_.c_str(); }
    kiln_status status() const noexcept { return status_; }

  private:
    kiln_status status_;
    std::string text_;
};

/* Throws what a function of the engine answered, unless that is KILN_OK. */
inline void check(kiln_status status)
{
    if (status != KILN_OK) throw error(status);
}

/* ---- tensors ---- */

template <class T> constexpr uint32_t dtype_of()
{
    using plain = std::remove_const_t<T>;
    static_assert(std::is_same_v<plain, float> || std::is_same_v<plain, double> || std::is_same_v<plain, uint8_t> ||
                      std::is_same_v<plain, int32_t> || std::is_same_v<plain, int64_t>,
                  "tensors are of float, double, uint8_t, int32_t or int64_t here");
    if constexpr (std::is_same_v<plain, float>) return KILN_F32;
    if constexpr (std::is_same_v<plain, double>) return KILN_F64;
    if constexpr (std::is_same_v<plain, uint8_t>) return KILN_U8;
    if constexpr (std::is_same_v<plain, int32_t>) return KILN_I32;
    return KILN_I64;
}

/* A window on a tensor's numbers, which are dense, the last dimension next to each other. In an estimate data() is
 * nullptr. */
template <class T> class tensor
{
  public:
    tensor(T *data, std::vector<int64_t> shape) : data_(data), shape_(std::move(shape)), size_(1)
    {
        for (int64_t n : shape_) size_ *= static_cast<size_t>(n);
    }
    T *data() const { return data_; }
    const std::vector<int64_t> &shape() const { return shape_; }
    int64_t dim(size_t i) const { return shape_.at(i); }
    size_t rank() const { return shape_.size(); }
    size_t size() const { return size_; } /* of numbers */
    T &operator[](size_t i) const { return data_[i]; }
    T *begin() const { return data_; }
    T *end() const { return data_ ? data_ + size_ : nullptr; }

  private:
    T *data_;
    std::vector<int64_t> shape_;
    size_t size_;
};

/* ---- values ---- */

class call;

/* A value that somebody else holds: as long as they do. */
class lent
{
  public:
    lent(const call &c, const kiln_value *v) : call_(&c), value_(v) {}
    explicit operator bool() const { return value_ != nullptr; }
    const kiln_value *get() const { return value_; }
    uint32_t kind() const; /* a kiln_value_kind; 0: there is none */
    /* Each throws where the value is of another kind. */
    int64_t integer() const;
    double number() const;
    bool boolean() const;
    std::string_view text() const;
    size_t count() const; /* of a list or map                */
    /* Of a list; a template, so that [0] is no null key. */
    template <class I, class = std::enable_if_t<std::is_integral_v<I>>> lent operator[](I i) const
    {
        return at(static_cast<size_t>(i));
    }
    lent operator[](const char *key) const;                  /* of a map: false when it has none */
    std::pair<std::string_view, lent> entry(size_t i) const; /* of a map, by the order of its keys */

  private:
    lent at(size_t i) const;
    const call *call_;
    const kiln_value *value_;
};

/* A value with a reference of its own, which goes with it. Lists and maps may be changed until they are handed over. */
class value
{
  public:
    value() = default;
    value(const kiln_host *host, kiln_value *owned) : host_(host), value_(owned) {}
    value(const value &other) : host_(other.host_), value_(other.value_ ? other.host_->ref(other.value_) : nullptr) {}
    value(value &&other) noexcept : host_(other.host_), value_(std::exchange(other.value_, nullptr)) {}
    value &operator=(value other) noexcept
    {
        std::swap(host_, other.host_);
        std::swap(value_, other.value_);
        return *this;
    }
    ~value()
    {
        if (value_) host_->unref(value_);
    }
    kiln_value *get() const { return value_; }
    kiln_value *release() { return std::exchange(value_, nullptr); }
    explicit operator bool() const { return value_ != nullptr; }
    void push(const value &item) { check(api()->list_push(value_, item.value_)); }
    void set(const char *key, const value &item) { check(api()->map_set(value_, key, item.value_)); }

  private:
    const kiln_value_api *api() const
    {
        return static_cast<const kiln_value_api *>(host_->ability(KILN_VALUE_ABILITY));
    }
    const kiln_host *host_ = nullptr;
    kiln_value *value_ = nullptr;
};

/* ---- a call ---- */

class call
{
  public:
    explicit call(const kiln_call *c)
        : call_(c), values_(static_cast<const kiln_value_api *>(c->host->ability(KILN_VALUE_ABILITY)))
    {
    }
    const kiln_call *raw() const { return call_; }
    const kiln_host *host() const { return call_->host; }
    kiln_ctx *ctx() const { return call_->ctx; }
    const kiln_value_api *values() const { return values_; }
    bool estimating() const { return call_->estimate != 0; } /* tensors have shapes and no data */

    /* The table of an ability: c.ability<kiln_ops>(KILN_OPS_ABILITY). Throws where this kiln has none of that name. */
    template <class Api> const Api *ability(const char *id) const
    {
        const void *found = call_->host->ability(id);
        if (!found) throw error(KILN_ERR_UNSUPPORTED, std::string("this kiln has no ") + id);
        return static_cast<const Api *>(found);
    }

    lent in(size_t i) const { return lent(*this, call_->in[i]); } /* false: it is optional and not wired */
    template <class T> tensor<T> tensor_of(const kiln_value *v, const char *what = "the value") const
    {
        kiln_tensor t = view(v);
        if (t.dtype != dtype_of<T>())
            throw error(KILN_ERR_INVALID, std::string(what) + " is a tensor of another type of numbers");
        return kiln::tensor<T>(static_cast<T *>(t.data), std::vector<int64_t>(t.dim, t.dim + t.rank));
    }
    /* Input i, which is only read. */
    template <class T> kiln::tensor<T> tensor(size_t i) const
    {
        static_assert(std::is_const_v<T>, "inputs are const");
        return tensor_of<T>(call_->in[i], "an input");
    }
    /* Output i, a tensor that is to be filled. */
    template <class T> kiln::tensor<T> new_tensor(size_t i, const std::vector<int64_t> &shape) const
    {
        value v = make_tensor<T>(shape);
        kiln::tensor<T> window = tensor_of<T>(v.get());
        out(i, std::move(v));
        return window;
    }
    template <class T> value make_tensor(const std::vector<int64_t> &shape) const
    {
        return own(call_->host->tensor_new(call_->ctx, dtype_of<T>(), KILN_CPU, static_cast<uint32_t>(shape.size()),
                                           shape.data()));
    }
    void out(size_t i, value v) const { call_->out[i] = v.release(); }
    value pass(size_t i) const { return own(call_->host->ref(call_->in[i])); } /* input i, as an output */

    value integer(int64_t n) const { return own(values_->new_int(call_->ctx, n)); }
    value number(double x) const { return own(values_->new_float(call_->ctx, x)); }
    value boolean(bool b) const { return own(values_->new_bool(call_->ctx, b)); }
    value text(std::string_view s) const { return own(values_->new_string(call_->ctx, s.data(), s.size())); }
    value list() const { return own(values_->new_list(call_->ctx)); }
    value map() const { return own(values_->new_map(call_->ctx)); }
    value map_copy(const lent &from) const { return own(values_->map_copy(call_->ctx, from.get())); }

    /* Shows how far it is; ends the call when it is cancelled. Call it every 100 ms. */
    void progress(uint64_t done, uint64_t total, const char *what) const
    {
        check(call_->host->progress(call_->ctx, done, total, what));
    }
    /* fn(i) for all i below n, on all threads; it must call nothing of the engine and throw nothing. */
    template <class F> void parallel_for(size_t n, const F &fn) const
    {
        static_assert(std::is_nothrow_invocable_v<const F &, size_t> || std::is_invocable_v<const F &, size_t>);
        call_->host->parallel_for(
            call_->ctx, n, [](void *arg, size_t i) noexcept { (*static_cast<const F *>(arg))(i); },
            const_cast<void *>(static_cast<const void *>(&fn)));
    }

  private:
    value own(kiln_value *v) const
    {
        if (!v) throw std::bad_alloc();
        return value(call_->host, v);
    }
    kiln_tensor view(const kiln_value *v) const
    {
        kiln_tensor t{};
        t.size = sizeof t;
        if (!v) throw error(KILN_ERR_INVALID, "an input is not wired");
        check(call_->host->view(call_->ctx, v, &t));
        return t;
    }
    const kiln_call *call_;
    const kiln_value_api *values_;
};

namespace detail
{
inline void is(bool right)
{
    if (!right) throw error(KILN_ERR_INVALID, "a value is of another kind than this node takes");
}
} // namespace detail

inline uint32_t lent::kind() const { return call_->values()->kind(value_); }
inline int64_t lent::integer() const
{
    int64_t n = 0;
    detail::is(call_->values()->get_int(value_, &n) == KILN_OK);
    return n;
}
inline double lent::number() const
{
    double x = 0;
    detail::is(call_->values()->get_float(value_, &x) == KILN_OK);
    return x;
}
inline bool lent::boolean() const
{
    int b = 0;
    detail::is(call_->values()->get_bool(value_, &b) == KILN_OK);
    return b != 0;
}
inline std::string_view lent::text() const
{
    size_t n = 0;
    const char *s = call_->values()->get_string(value_, &n);
    detail::is(s != nullptr);
    return std::string_view(s, n);
}
inline size_t lent::count() const { return call_->values()->count(value_); }
inline lent lent::at(size_t i) const { return lent(*call_, call_->values()->list_at(value_, i)); }
inline lent lent::operator[](const char *key) const { return lent(*call_, call_->values()->map_get(value_, key)); }
inline std::pair<std::string_view, lent> lent::entry(size_t i) const
{
    const char *key = nullptr;
    const kiln_value *v = call_->values()->map_at(value_, i, &key);
    detail::is(v != nullptr && key != nullptr);
    return {key, lent(*call_, v)};
}

/* ---- nodes ---- */

struct range {
    double min, max, step;
    uint32_t flags = 0; /* KILN_PARAM_ABOVE_MIN, KILN_PARAM_BELOW_MAX */
};

/* Choices of a parameter, by name; their values are 0, 1, 2, ... */
using choices = std::initializer_list<std::pair<const char *, const char *>>;

struct none {
}; /* no parameters */

/* The row of a node. Params: a struct whose members are what plugin.h says a parameter is (double, int64_t, uint64_t
 * for a seed, int32_t for a truth value or a choice, const char * for a text); a member's initialiser is the default.
 * Every text is kept as a pointer: give literals. */
template <class Params = none> class node
{
    static_assert(std::is_standard_layout_v<Params> && std::is_trivially_copyable_v<Params>,
                  "parameters are plain members");

  public:
    node(const char *type, const char *title, const char *category, const char *doc)
    {
        row_.size = sizeof row_;
        row_.flags = KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES;
        row_.devices = KILN_CPU, row_.revision = 1;
        row_.type = type, row_.title = title, row_.category = category, row_.doc = doc;
        if constexpr (!std::is_same_v<Params, none>) row_.params_size = sizeof(Params);
    }
    node &&in(const char *name, const char *type, const char *doc, uint32_t flags = 0) &&
    {
        return std::move(add(in_, name, type, doc, flags));
    }
    node &&out(const char *name, const char *type, const char *doc, uint32_t flags = 0) &&
    {
        return std::move(add(out_, name, type, doc, flags));
    }
    node &&param(const char *name, double Params::*member, range r, const char *doc) &&
    {
        return std::move(number(name, KILN_P_FLOAT, member, r, doc));
    }
    node &&param(const char *name, int64_t Params::*member, range r, const char *doc) &&
    {
        return std::move(number(name, KILN_P_INT, member, r, doc));
    }
    node &&param(const char *name, int32_t Params::*member, const char *doc) && /* true or false */
    {
        return std::move(number(name, KILN_P_BOOL, member, {0, 1, 1}, doc));
    }
    node &&seed(const char *name, uint64_t Params::*member, const char *doc) &&
    {
        return std::move(number(name, KILN_P_SEED, member, {0, 0, 0}, doc));
    }
    node &&param(const char *name, const char *Params::*member, const char *doc, uint32_t flags = 0) &&
    {
        kiln_param &p = add_param(name, KILN_P_STRING, member, doc);
        p.flags = flags, p.def_str = defaults_.*member;
        return std::move(*this);
    }
    /* One of several, each with its explanation. */
    node &&param(const char *name, int32_t Params::*member, choices of, const char *doc) &&
    {
        kiln_param &p = add_param(name, KILN_P_ENUM, member, doc);
        std::vector<kiln_choice> &list = choice_.emplace_back();
        for (const auto &c : of) {
            kiln_choice choice{};
            choice.name = c.first, choice.doc = c.second, choice.value = static_cast<int64_t>(list.size());
            list.push_back(choice);
        }
        list.push_back(kiln_choice{});
        p.def = defaults_.*member, p.choice = list.data(), p.choice_stride = sizeof(kiln_choice);
        return std::move(*this);
    }
    node &&flags(uint32_t f) && /* KILN_NODE_...; without: PURE, REENTRANT, ESTIMATES */
    {
        row_.flags = f;
        return std::move(*this);
    }
    node &&revision(uint32_t n) &&
    {
        row_.revision = n;
        return std::move(*this);
    }
    /* fn(kiln::call &, const Params &), the last of the row. It lives as long as the process. */
    template <class F> node &&run(F fn) &&
    {
        static const F kept = std::move(fn);
        static const F *const code = &kept;
        row_.run = [](const kiln_call *c) -> kiln_status {
            try {
                kiln::call wrapped(c);
                if constexpr (std::is_same_v<Params, none>)
                    (*code)(wrapped, none{});
                else
                    (*code)(wrapped, *static_cast<const Params *>(c->params));
                return KILN_OK;
            } catch (const error &e) {
                return *e.what() ? c->host->fail(c->ctx, e.status(), "%s", e.what()) : e.status();
            } catch (const std::bad_alloc &) {
                return KILN_ERR_NOMEM;
            } catch (const std::exception &e) {
                return c->host->fail(c->ctx, KILN_ERR_BUG, "an exception: %s", e.what());
            } catch (...) {
                return c->host->fail(c->ctx, KILN_ERR_BUG, "an exception that is no std::exception");
            }
        };
        return std::move(*this);
    }
    /* What the engine reads; it points into this node, which is not to be moved any more. */
    const kiln_node *row() const
    {
        row_.in = in_.data(), row_.n_in = static_cast<uint32_t>(in_.size()), row_.in_stride = sizeof(kiln_port);
        row_.out = out_.data(), row_.n_out = static_cast<uint32_t>(out_.size()), row_.out_stride = sizeof(kiln_port);
        row_.param = param_.data(), row_.n_param = static_cast<uint32_t>(param_.size());
        row_.param_stride = sizeof(kiln_param);
        return &row_;
    }

  private:
    node &add(std::vector<kiln_port> &to, const char *name, const char *type, const char *doc, uint32_t flags)
    {
        kiln_port p{};
        p.name = name, p.doc = doc, p.type = type, p.flags = flags;
        to.push_back(p);
        return *this;
    }
    template <class M> kiln_param &add_param(const char *name, uint32_t type, M Params::*member, const char *doc)
    {
        kiln_param p{};
        p.name = name, p.doc = doc, p.type = type;
        p.offset = static_cast<size_t>(reinterpret_cast<const char *>(&(defaults_.*member)) -
                                       reinterpret_cast<const char *>(&defaults_));
        param_.push_back(p);
        return param_.back();
    }
    template <class M> node &number(const char *name, uint32_t type, M Params::*member, range r, const char *doc)
    {
        kiln_param &p = add_param(name, type, member, doc);
        p.def = static_cast<double>(defaults_.*member), p.min = r.min, p.max = r.max, p.step = r.step,
        p.flags = r.flags;
        return *this;
    }

    Params defaults_{};
    std::vector<kiln_port> in_, out_;
    std::vector<kiln_param> param_;
    std::deque<std::vector<kiln_choice>> choice_;
    mutable kiln_node row_{};
};

namespace detail
{
template <class... Nodes> struct table {
    const kiln_node *list[sizeof...(Nodes)];
    explicit table(const Nodes &...nodes) : list{nodes.row()...} {}
};
inline kiln_plugin plugin(const char *id, const char *version, const char *license, const kiln_node *const *node,
                          size_t n)
{
    kiln_plugin p{};
    p.magic = KILN_MAGIC, p.size = sizeof p, p.abi_major = KILN_ABI_MAJOR, p.abi_minor = KILN_ABI_MINOR;
    p.id = id, p.version = version, p.license = license, p.node = node, p.n_node = static_cast<uint32_t>(n);
    return p;
}
} // namespace detail

} // namespace kiln

/* The plugin of these nodes, behind them in the same file. It is made when the file is loaded. */
#define KILN_CPP_PLUGIN(id, version, license, ...)                                                                     \
    static const kiln::detail::table kiln_nodes_(__VA_ARGS__);                                                         \
    extern "C" {                                                                                                       \
    extern KILN_EXPORT const kiln_plugin kiln_plugin_v1;                                                               \
    const kiln_plugin kiln_plugin_v1 = kiln::detail::plugin(id, version, license, kiln_nodes_.list,                    \
                                                            sizeof kiln_nodes_.list / sizeof kiln_nodes_.list[0]);     \
    }

#endif
