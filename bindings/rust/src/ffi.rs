// Made by scripts/rust-bindings from include/kiln; not to be edited.

pub const KILN_MAGIC : u32 = 827214923;
pub const KILN_ABI_MAJOR : u32 = 1;
pub const KILN_ABI_NEWEST : u32 = 1;
pub const KILN_ABI_MINOR : u32 = 0;
pub const KILN_MAX_RANK : u32 = 8;
pub const KILN_WEIGHTS_ABILITY : & [u8 ; 15usize] = b"kiln.weights/1\0";
pub const KILN_OPS_ABILITY : & [u8 ; 11usize] = b"kiln.ops/1\0";
pub const KILN_MAP_OPERANDS : u32 = 6;
pub const KILN_MAP_NUMBERS : u32 = 4;
pub const KILN_MAX_TERMS : u32 = 64;
pub const KILN_OP_OPERANDS : u32 = 8;
pub const KILN_OP_RESULTS : u32 = 3;
pub const KILN_VALUE_ABILITY : & [u8 ; 13usize] = b"kiln.value/1\0";
pub const KILN_NETWORK_HOOKS : & [u8 ; 14usize] = b"network_hooks\0";
pub const KILN_NETWORK_HOOK : & [u8 ; 13usize] = b"NETWORK_HOOK\0";
pub const KILN_VAE_ABILITY : & [u8 ; 11usize] = b"kiln.vae/1\0";
pub const KILN_TOKENIZER_ABILITY : & [u8 ; 17usize] = b"kiln.tokenizer/1\0";
pub const KILN_TOKENIZER_WHY : u32 = 400;
pub const KILN_TEXT_ABILITY : & [u8 ; 12usize] = b"kiln.text/1\0";
pub const KILN_MODEL_ABILITY : & [u8 ; 13usize] = b"kiln.model/2\0";
pub const KILN_FAMILY_DENOISER : & [u8 ; 9usize] = b"denoiser\0";
pub const KILN_FAMILY_TEXT_ENCODER : & [u8 ; 13usize] = b"text_encoder\0";
pub const KILN_FAMILY_AUTOENCODER : & [u8 ; 12usize] = b"autoencoder\0";
pub const KILN_FAMILY_CONTROL : & [u8 ; 8usize] = b"control\0";
pub const KILN_FAMILY_VISION : & [u8 ; 7usize] = b"vision\0";
pub const KILN_FAMILY_UPSCALER : & [u8 ; 9usize] = b"upscaler\0";
pub const KILN_FAMILY_PATCH : & [u8 ; 6usize] = b"patch\0";
pub const KILN_ENTRY_HOOK : & [u8 ; 5usize] = b"HOOK\0";
pub const KILN_FILES_ABILITY : & [u8 ; 13usize] = b"kiln.files/1\0";
pub const KILN_GRAPH_ABILITY : & [u8 ; 13usize] = b"kiln.graph/1\0";
pub const KILN_LOADING_ABILITY : & [u8 ; 15usize] = b"kiln.loading/1\0";
pub const KILN_PARAMS_ABILITY : & [u8 ; 14usize] = b"kiln.params/1\0";
pub const KILN_SAMPLER_ABILITY : & [u8 ; 15usize] = b"kiln.sampler/1\0";
pub const KILN_SAMPLING_ABILITY : & [u8 ; 16usize] = b"kiln.sampling/1\0";
pub const KILN_GUIDER_SETS : u32 = 8;
pub const KILN_GUIDER_MODELS : u32 = 4;
pub const KILN_STORE_ABILITY : & [u8 ; 13usize] = b"kiln.store/1\0";
pub const KILN_TYPES_ABILITY : & [u8 ; 13usize] = b"kiln.types/1\0";
pub type __uint8_t = :: std :: os :: raw :: c_uchar;
pub type __uint16_t = :: std :: os :: raw :: c_ushort;
pub type __int32_t = :: std :: os :: raw :: c_int;
pub type __uint32_t = :: std :: os :: raw :: c_uint;
pub type __int64_t = :: std :: os :: raw :: c_long;
pub type __uint64_t = :: std :: os :: raw :: c_ulong;
pub const KILN_OK : kiln_status = 0;
pub const KILN_CANCELLED : kiln_status = 1;
pub const KILN_ERR_INVALID : kiln_status = - 1;
pub const KILN_ERR_UNSUPPORTED : kiln_status = - 2;
pub const KILN_ERR_NOMEM : kiln_status = - 3;
pub const KILN_ERR_IO : kiln_status = - 4;
pub const KILN_ERR_DEVICE : kiln_status = - 5;
pub const KILN_ERR_BUG : kiln_status = - 6;
pub type kiln_status = :: std :: os :: raw :: c_int;
pub const KILN_CPU : _bindgen_ty_1 = 1;
pub const KILN_CUDA : _bindgen_ty_1 = 2;
pub type _bindgen_ty_1 = :: std :: os :: raw :: c_uint;
pub const KILN_F32 : kiln_dtype = 1;
pub const KILN_F16 : kiln_dtype = 2;
pub const KILN_BF16 : kiln_dtype = 3;
pub const KILN_U8 : kiln_dtype = 4;
pub const KILN_I32 : kiln_dtype = 5;
pub const KILN_I64 : kiln_dtype = 6;
pub const KILN_F64 : kiln_dtype = 7;
pub const KILN_BOOL8 : kiln_dtype = 8;
pub const KILN_F8_E4M3 : kiln_dtype = 9;
pub const KILN_F8_E5M2 : kiln_dtype = 10;
pub const KILN_Q4_0 : kiln_dtype = 11;
pub const KILN_Q4_1 : kiln_dtype = 12;
pub const KILN_Q5_0 : kiln_dtype = 13;
pub const KILN_Q5_1 : kiln_dtype = 14;
pub const KILN_Q8_0 : kiln_dtype = 15;
pub const KILN_Q2_K : kiln_dtype = 16;
pub const KILN_Q3_K : kiln_dtype = 17;
pub const KILN_Q4_K : kiln_dtype = 18;
pub const KILN_Q5_K : kiln_dtype = 19;
pub const KILN_Q6_K : kiln_dtype = 20;
pub const KILN_IQ4_NL : kiln_dtype = 21;
pub const KILN_IQ4_XS : kiln_dtype = 22;
pub const KILN_MXFP4 : kiln_dtype = 23;
pub const KILN_NVFP4 : kiln_dtype = 24;
pub type kiln_dtype = :: std :: os :: raw :: c_uint;
pub const KILN_LOG_ERROR : _bindgen_ty_2 = 0;
pub const KILN_LOG_WARN : _bindgen_ty_2 = 1;
pub const KILN_LOG_INFO : _bindgen_ty_2 = 2;
pub const KILN_LOG_DEBUG : _bindgen_ty_2 = 3;
pub type _bindgen_ty_2 = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_value { _unused : [u8 ; 0] ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_ctx { _unused : [u8 ; 0] ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_tensor {
    pub size : u32,
    pub dtype : u32,
    pub device : u32,
    pub rank : u32,
    pub dim : * const i64,
    pub stride : * const i64,
    pub data : * mut :: std :: os :: raw :: c_void ,}
pub const KILN_PORT_OPTIONAL : _bindgen_ty_3 = 1;
pub const KILN_PORT_LIST : _bindgen_ty_3 = 2;
pub const KILN_PORT_LAZY : _bindgen_ty_3 = 4;
pub type _bindgen_ty_3 = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_port {
    pub name : * const :: std :: os :: raw :: c_char,
    pub doc : * const :: std :: os :: raw :: c_char,
    pub type_ : * const :: std :: os :: raw :: c_char,
    pub flags : u32,
    pub dtypes : u32,
    pub rank_min : u32,
    pub rank_max : u32 ,}
pub const KILN_P_BOOL : kiln_param_type = 1;
pub const KILN_P_INT : kiln_param_type = 2;
pub const KILN_P_SEED : kiln_param_type = 3;
pub const KILN_P_FLOAT : kiln_param_type = 4;
pub const KILN_P_ENUM : kiln_param_type = 5;
pub const KILN_P_NAME : kiln_param_type = 6;
pub const KILN_P_STRING : kiln_param_type = 7;
pub const KILN_P_FILE : kiln_param_type = 8;
pub type kiln_param_type = :: std :: os :: raw :: c_uint;
pub const KILN_PARAM_REQUIRED : _bindgen_ty_4 = 1;
pub const KILN_PARAM_MULTILINE : _bindgen_ty_4 = 2;
pub const KILN_PARAM_NEUTRAL : _bindgen_ty_4 = 4;
pub const KILN_PARAM_FLOORED : _bindgen_ty_4 = 8;
pub const KILN_PARAM_PASSED : _bindgen_ty_4 = 16;
pub const KILN_PARAM_CONTROL : _bindgen_ty_4 = 32;
pub const KILN_PARAM_OWN : _bindgen_ty_4 = 64;
pub const KILN_PARAM_ABOVE_MIN : _bindgen_ty_4 = 128;
pub const KILN_PARAM_BELOW_MAX : _bindgen_ty_4 = 256;
pub type _bindgen_ty_4 = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_choice {
    pub name : * const :: std :: os :: raw :: c_char,
    pub doc : * const :: std :: os :: raw :: c_char,
    pub value : i64 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_param {
    pub name : * const :: std :: os :: raw :: c_char,
    pub doc : * const :: std :: os :: raw :: c_char,
    pub type_ : u32,
    pub flags : u32,
    pub offset : usize,
    pub def : f64,
    pub min : f64,
    pub max : f64,
    pub step : f64,
    pub def_str : * const :: std :: os :: raw :: c_char,
    pub choice : * const kiln_choice,
    pub choice_stride : u32,
    pub from : * const :: std :: os :: raw :: c_char ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_host {
    pub size : u32,
    pub abi_major : u16,
    pub abi_minor : u16,
    pub name : * const :: std :: os :: raw :: c_char,
    pub version : * const :: std :: os :: raw :: c_char,
    pub log : :: std :: option :: Option < unsafe extern "C" fn (level : :: std :: os :: raw :: c_int , msg : * const :: std :: os :: raw :: c_char) >,
    pub ability : :: std :: option :: Option < unsafe extern "C" fn (id : * const :: std :: os :: raw :: c_char) -> * const :: std :: os :: raw :: c_void >,
    pub fail : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , status : kiln_status , fmt : * const :: std :: os :: raw :: c_char , ...) -> kiln_status >,
    pub progress : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , done : u64 , total : u64 , what : * const :: std :: os :: raw :: c_char) -> kiln_status >,
    pub scratch : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , bytes : usize , device : u32) -> * mut :: std :: os :: raw :: c_void >,
    pub tensor_new : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , dtype : u32 , device : u32 , rank : u32 , dim : * const i64) -> * mut kiln_value >,
    pub view : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_value , out : * mut kiln_tensor) -> kiln_status >,
    pub ref_ : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_value) -> * mut kiln_value >,
    pub unref : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_value) >,
    pub parallel_for : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , n : usize , fn_ : :: std :: option :: Option < unsafe extern "C" fn (arg : * mut :: std :: os :: raw :: c_void , i : usize) > , arg : * mut :: std :: os :: raw :: c_void) >,
    pub data_folder : :: std :: option :: Option < unsafe extern "C" fn () -> * const :: std :: os :: raw :: c_char >,
    pub provide : :: std :: option :: Option < unsafe extern "C" fn (id : * const :: std :: os :: raw :: c_char , table : * const :: std :: os :: raw :: c_void) -> kiln_status >,
    pub not_kept : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx) >,
    pub node : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx) -> * const :: std :: os :: raw :: c_char >,
    pub find_file : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , folder : * const :: std :: os :: raw :: c_char , name : * const :: std :: os :: raw :: c_char) -> * const :: std :: os :: raw :: c_char >,
    pub spill : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , bytes : usize) -> :: std :: os :: raw :: c_int >,
    pub at_end : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , fn_ : :: std :: option :: Option < unsafe extern "C" fn (arg : * mut :: std :: os :: raw :: c_void) > , arg : * mut :: std :: os :: raw :: c_void) -> kiln_status >,
    pub about : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , what : * const :: std :: os :: raw :: c_char) >,
    pub draft : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , text : * const :: std :: os :: raw :: c_char) >,
    pub preview_every : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx) -> u32 >,
    pub preview : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , rgb : * const u8 , width : u32 , height : u32) >,
    pub at_param : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , status : kiln_status , param : * const :: std :: os :: raw :: c_char) -> kiln_status > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_call {
    pub size : u32,
    pub device : u32,
    pub host : * const kiln_host,
    pub ctx : * mut kiln_ctx,
    pub params : * const :: std :: os :: raw :: c_void,
    pub in_ : * const * mut kiln_value,
    pub out : * mut * mut kiln_value,
    pub instance : * mut :: std :: os :: raw :: c_void,
    pub estimate : u32,
    pub wanted : u64 ,}
pub const KILN_NODE_PURE : _bindgen_ty_5 = 1;
pub const KILN_NODE_REENTRANT : _bindgen_ty_5 = 2;
pub const KILN_NODE_OUTPUT : _bindgen_ty_5 = 4;
pub const KILN_NODE_DEVICE : _bindgen_ty_5 = 8;
pub const KILN_NODE_ESTIMATES : _bindgen_ty_5 = 16;
pub const KILN_NODE_EXPANDS : _bindgen_ty_5 = 32;
pub const KILN_NODE_CONSTANT : _bindgen_ty_5 = 64;
pub type _bindgen_ty_5 = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_file_names {
    pub size : u32,
    pub self_ : * mut :: std :: os :: raw :: c_void,
    pub add : :: std :: option :: Option < unsafe extern "C" fn (self_ : * mut :: std :: os :: raw :: c_void , param : * const :: std :: os :: raw :: c_char , folder : * const :: std :: os :: raw :: c_char , name : * const :: std :: os :: raw :: c_char) > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_graph { _unused : [u8 ; 0] ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_node {
    pub size : u32,
    pub flags : u32,
    pub devices : u32,
    pub revision : u32,
    pub type_ : * const :: std :: os :: raw :: c_char,
    pub title : * const :: std :: os :: raw :: c_char,
    pub category : * const :: std :: os :: raw :: c_char,
    pub doc : * const :: std :: os :: raw :: c_char,
    pub in_ : * const kiln_port,
    pub n_in : u32,
    pub in_stride : u32,
    pub out : * const kiln_port,
    pub n_out : u32,
    pub out_stride : u32,
    pub param : * const kiln_param,
    pub n_param : u32,
    pub param_stride : u32,
    pub params_size : usize,
    pub run : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call) -> kiln_status >,
    pub check : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call) -> kiln_status >,
    pub create : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_host , instance : * mut * mut :: std :: os :: raw :: c_void) -> kiln_status >,
    pub destroy : :: std :: option :: Option < unsafe extern "C" fn (instance : * mut :: std :: os :: raw :: c_void) >,
    pub wants : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call , inputs : * mut u64) -> kiln_status >,
    pub expand : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call , arg2 : * mut kiln_graph) -> kiln_status >,
    pub names_files : :: std :: option :: Option < unsafe extern "C" fn (params : * const :: std :: os :: raw :: c_void , to : * const kiln_file_names) > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_plugin {
    pub magic : u32,
    pub size : u32,
    pub abi_major : u16,
    pub abi_minor : u16,
    pub n_node : u32,
    pub id : * const :: std :: os :: raw :: c_char,
    pub version : * const :: std :: os :: raw :: c_char,
    pub license : * const :: std :: os :: raw :: c_char,
    pub node : * const * const kiln_node,
    pub open : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_host) -> kiln_status >,
    pub close : :: std :: option :: Option < unsafe extern "C" fn () > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_weights { _unused : [u8 ; 0] ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_file { _unused : [u8 ; 0] ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_weight_info {
    pub size : u32,
    pub dtype : u32,
    pub rank : u32,
    pub dim : * const i64,
    pub bytes : usize,
    pub name : * const :: std :: os :: raw :: c_char,
    pub file : * const :: std :: os :: raw :: c_char,
    pub block : u32,
    pub block_bytes : u32,
    pub stored_bytes : usize ,}
pub const KILN_JOIN_CAT : _bindgen_ty_6 = 1;
pub const KILN_JOIN_STACK : _bindgen_ty_6 = 2;
pub type _bindgen_ty_6 = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_weight_rule {
    pub size : u32,
    pub from : * const :: std :: os :: raw :: c_char,
    pub to : * const :: std :: os :: raw :: c_char,
    pub row : i64,
    pub rows : i64,
    pub transpose : u32,
    pub squeeze : u32,
    pub more : u32,
    pub join : u32,
    pub axis : u32,
    pub with : * const * const :: std :: os :: raw :: c_char,
    pub n_with : u32,
    pub slice_axis : u32,
    pub each : * const :: std :: os :: raw :: c_char,
    pub slice : i64,
    pub slices : i64,
    pub swap_halves : u32,
    pub unpermute_heads : u32,
    pub reshape : * const i64,
    pub permute : * const u32,
    pub reshape_rank : u32,
    pub permute_rank : u32 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_weight_factor {
    pub data : * const f32,
    pub rank : u32,
    pub dim : * const i64 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_weight_product {
    pub to : * mut f32,
    pub a : * const f32,
    pub b : * const f32,
    pub to_ld : usize,
    pub b_ld : usize,
    pub rows : usize,
    pub columns : usize,
    pub inner : usize,
    pub factor : f32 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_weight_call {
    pub size : u32,
    pub rank : u32,
    pub dim : * const i64,
    pub rows : usize,
    pub columns : usize,
    pub strength : f64,
    pub scale : f64,
    pub option : * const f64,
    pub factor : * mut kiln_weight_factor,
    pub prepared : * const f32,
    pub self_ : * mut :: std :: os :: raw :: c_void,
    pub add_product : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_weight_product) >,
    pub each : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_weight_call , n : usize , fn_ : :: std :: option :: Option < unsafe extern "C" fn (arg : * mut :: std :: os :: raw :: c_void , i : usize) > , arg : * mut :: std :: os :: raw :: c_void) > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_weight_change {
    pub size : u32,
    pub revision : u32,
    pub name : * const :: std :: os :: raw :: c_char,
    pub rows : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_weight_call) -> usize >,
    pub prepared : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_weight_call) -> usize >,
    pub prepare : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_weight_call , to : * mut f32) >,
    pub scratch : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_weight_call , rows : usize) -> usize >,
    pub apply : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_weight_call , w : * mut f32 , row : usize , rows : usize , scratch : * mut f32) > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_weight_patch {
    pub size : u32,
    pub name : * const :: std :: os :: raw :: c_char,
    pub strength : f64,
    pub scale : f64,
    pub from : * mut kiln_weights,
    pub up : * const :: std :: os :: raw :: c_char,
    pub down : * const :: std :: os :: raw :: c_char,
    pub difference : * const :: std :: os :: raw :: c_char,
    pub change : * const kiln_weight_change,
    pub factor : * const * const :: std :: os :: raw :: c_char,
    pub option : * const f64,
    pub n_factor : u32,
    pub n_option : u32 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_weight_row {
    pub size : u32,
    pub dtype : u32,
    pub name : * const :: std :: os :: raw :: c_char,
    pub from : * mut kiln_weights,
    pub tensor : * const * const :: std :: os :: raw :: c_char,
    pub n_tensor : u32,
    pub rank : u32,
    pub dim : * const i64,
    pub data : * const f32 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_weight_text {
    pub size : u32,
    pub key : * const :: std :: os :: raw :: c_char,
    pub value : * const :: std :: os :: raw :: c_char ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_weight_source {
    pub size : u32,
    pub name : * const :: std :: os :: raw :: c_char,
    pub data : * const :: std :: os :: raw :: c_void,
    pub bytes : u64,
    pub read : :: std :: option :: Option < unsafe extern "C" fn (self_ : * mut :: std :: os :: raw :: c_void , offset : u64 , n : usize , dst : * mut :: std :: os :: raw :: c_void) -> kiln_status >,
    pub self_ : * mut :: std :: os :: raw :: c_void,
    pub release : :: std :: option :: Option < unsafe extern "C" fn (self_ : * mut :: std :: os :: raw :: c_void) > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_weight_tensor {
    pub size : u32,
    pub dtype : u32,
    pub rank : u32,
    pub name : * const :: std :: os :: raw :: c_char,
    pub dim : * const i64,
    pub data : * const :: std :: os :: raw :: c_void ,}
pub const KILN_META_INT : _bindgen_ty_7 = 1;
pub const KILN_META_UINT : _bindgen_ty_7 = 2;
pub const KILN_META_FLOAT : _bindgen_ty_7 = 3;
pub const KILN_META_BOOL : _bindgen_ty_7 = 4;
pub const KILN_META_STRING : _bindgen_ty_7 = 5;
pub type _bindgen_ty_7 = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_weight_value {
    pub size : u32,
    pub kind : u32,
    pub is_array : u32,
    pub width : u32,
    pub count : usize,
    pub key : * const :: std :: os :: raw :: c_char,
    pub file : * const :: std :: os :: raw :: c_char,
    pub data : * const :: std :: os :: raw :: c_void,
    pub bytes : usize,
    pub plain : u32,
    pub next : usize,
    pub at : usize ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_weight_item {
    pub size : u32,
    pub integer : i64,
    pub number : f64,
    pub text : * const :: std :: os :: raw :: c_char,
    pub n : usize ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_weights_api {
    pub size : u32,
    pub open : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , path : * const :: std :: os :: raw :: c_char) -> * mut kiln_weights >,
    pub view : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , base : * mut kiln_weights , rule : * const kiln_weight_rule , n : usize) -> * mut kiln_weights >,
    pub ref_ : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_weights) -> * mut kiln_weights >,
    pub unref : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_weights) >,
    pub count : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_weights) -> usize >,
    pub at : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_weights , i : usize , out : * mut kiln_weight_info) -> kiln_status >,
    pub find : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_weights , name : * const :: std :: os :: raw :: c_char , out : * mut kiln_weight_info) -> kiln_status >,
    pub map : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_weights , name : * const :: std :: os :: raw :: c_char) -> * const :: std :: os :: raw :: c_void >,
    pub read_f32 : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_weights , name : * const :: std :: os :: raw :: c_char , dst : * mut f32) -> kiln_status >,
    pub text : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_weights , path : * const :: std :: os :: raw :: c_char , n : * mut usize) -> * const :: std :: os :: raw :: c_char >,
    pub identity : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_weights) -> * const :: std :: os :: raw :: c_char >,
    pub unused : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_weights , fn_ : :: std :: option :: Option < unsafe extern "C" fn (arg : * mut :: std :: os :: raw :: c_void , arg1 : * const kiln_weight_info) > , arg : * mut :: std :: os :: raw :: c_void) -> usize >,
    pub patch : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , base : * mut kiln_weights , patch : * const kiln_weight_patch , n : usize) -> * mut kiln_weights >,
    pub write : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , to : * mut kiln_file , row : * const kiln_weight_row , n : usize , text : * const kiln_weight_text , n_text : usize) -> kiln_status >,
    pub metadata : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_weights , path : * const :: std :: os :: raw :: c_char , out : * mut kiln_weight_value) -> kiln_status >,
    pub metadata_at : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_weights , i : usize , out : * mut kiln_weight_value) -> kiln_status >,
    pub metadata_item : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_weight_value , i : usize , out : * mut kiln_weight_item) -> kiln_status >,
    pub overlay : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , base : * mut kiln_weights , over : * mut kiln_weights) -> * mut kiln_weights >,
    pub open_source : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_weight_source) -> * mut kiln_weights >,
    pub make : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , name : * const :: std :: os :: raw :: c_char , tensor : * const kiln_weight_tensor , n : usize) -> * mut kiln_weights > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_program { _unused : [u8 ; 0] ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_states { _unused : [u8 ; 0] ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_t {
    pub id : u32 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_program_options {
    pub size : u32,
    pub device : u32,
    pub precision : u32,
    pub name : * const :: std :: os :: raw :: c_char,
    pub precisions : u32 ,}
pub const KILN_ACT_NONE : kiln_act = 0;
pub const KILN_ACT_SILU : kiln_act = 1;
pub const KILN_ACT_GELU : kiln_act = 2;
pub const KILN_ACT_GELU_TANH : kiln_act = 3;
pub const KILN_ACT_QUICK_GELU : kiln_act = 4;
pub const KILN_ACT_RELU : kiln_act = 5;
pub const KILN_ACT_SIGMOID : kiln_act = 6;
pub const KILN_ACT_TANH : kiln_act = 7;
pub type kiln_act = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_conv2d {
    pub size : u32,
    pub stride : [i32 ; 2usize],
    pub pad : [i32 ; 4usize],
    pub dilation : [i32 ; 2usize],
    pub groups : i32 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_attention {
    pub size : u32,
    pub heads : i32,
    pub scale : f32,
    pub causal : u32,
    pub mask : kiln_t,
    pub kv_heads : i32,
    pub softcap : f32,
    pub window : u32,
    pub left : i64,
    pub right : i64,
    pub offset : kiln_t,
    pub key_length : kiln_t,
    pub q_segment : kiln_t,
    pub k_segment : kiln_t,
    pub key_position : kiln_t,
    pub bias_table : kiln_t,
    pub bidirectional : u32,
    pub max_distance : i64,
    pub sinks : kiln_t,
    pub pages : kiln_t,
    pub lse : * mut kiln_t ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_map {
    pub size : u32,
    pub dtype : u32,
    pub number : [f32 ; 4usize] ,}
pub const KILN_NORM_RMS : kiln_norm_kind = 0;
pub const KILN_NORM_LAYER : kiln_norm_kind = 1;
pub const KILN_NORM_L2 : kiln_norm_kind = 2;
pub type kiln_norm_kind = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_norm {
    pub size : u32,
    pub kind : u32,
    pub eps : f32,
    pub one_plus : u32,
    pub eps_inside : u32,
    pub group : i64,
    pub gain : kiln_t,
    pub bias : kiln_t,
    pub scale : kiln_t,
    pub shift : kiln_t ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_rope {
    pub size : u32,
    pub heads : i32,
    pub rotary : i64,
    pub interleaved : u32,
    pub cos : kiln_t,
    pub sin : kiln_t ,}
pub const KILN_REDUCE_SUM : kiln_reduce = 0;
pub const KILN_REDUCE_MEAN : kiln_reduce = 1;
pub const KILN_REDUCE_MAX : kiln_reduce = 2;
pub const KILN_REDUCE_MIN : kiln_reduce = 3;
pub const KILN_REDUCE_PROD : kiln_reduce = 4;
pub const KILN_REDUCE_L2 : kiln_reduce = 5;
pub const KILN_REDUCE_LOGSUMEXP : kiln_reduce = 6;
pub const KILN_REDUCE_ARGMAX : kiln_reduce = 7;
pub const KILN_REDUCE_ARGMIN : kiln_reduce = 8;
pub type kiln_reduce = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_softmax {
    pub size : u32,
    pub length : kiln_t,
    pub log : u32 ,}
pub const KILN_RANDOM_UNIFORM : kiln_random = 0;
pub const KILN_RANDOM_NORMAL : kiln_random = 1;
pub const KILN_RANDOM_GUMBEL : kiln_random = 2;
pub type kiln_random = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_matmul {
    pub size : u32,
    pub alpha : f32,
    pub transpose_b : u32 ,}
pub const KILN_PAD_ZERO : kiln_pad_mode = 0;
pub const KILN_PAD_REFLECT : kiln_pad_mode = 1;
pub const KILN_PAD_REPLICATE : kiln_pad_mode = 2;
pub const KILN_PAD_CIRCULAR : kiln_pad_mode = 3;
pub type kiln_pad_mode = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_conv {
    pub size : u32,
    pub rank : u32,
    pub stride : [i32 ; 3usize],
    pub before : [i32 ; 3usize],
    pub after : [i32 ; 3usize],
    pub dilation : [i32 ; 3usize],
    pub groups : i32,
    pub pad_mode : u32,
    pub transposed : u32,
    pub output_pad : [i32 ; 3usize] ,}
pub const KILN_INTERPOLATE_NEAREST : kiln_interpolate_mode = 0;
pub const KILN_INTERPOLATE_NEAREST_EXACT : kiln_interpolate_mode = 1;
pub const KILN_INTERPOLATE_BILINEAR : kiln_interpolate_mode = 2;
pub const KILN_INTERPOLATE_BICUBIC : kiln_interpolate_mode = 3;
pub const KILN_INTERPOLATE_AREA : kiln_interpolate_mode = 4;
pub type kiln_interpolate_mode = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_interpolate {
    pub size : u32,
    pub mode : u32,
    pub align_corners : u32,
    pub antialias : u32,
    pub h : i64,
    pub w : i64 ,}
pub const KILN_POOL_AVERAGE : kiln_pool_kind = 0;
pub const KILN_POOL_MAX : kiln_pool_kind = 1;
pub type kiln_pool_kind = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_pool {
    pub size : u32,
    pub kind : u32,
    pub rank : u32,
    pub window : [i32 ; 3usize],
    pub stride : [i32 ; 3usize],
    pub before : [i32 ; 3usize],
    pub after : [i32 ; 3usize],
    pub count_include_pad : u32 ,}
pub const KILN_SAMPLE_BILINEAR : kiln_sample_mode = 0;
pub const KILN_SAMPLE_NEAREST : kiln_sample_mode = 1;
pub const KILN_SAMPLE_BICUBIC : kiln_sample_mode = 2;
pub type kiln_sample_mode = :: std :: os :: raw :: c_uint;
pub const KILN_SAMPLE_ZEROS : kiln_sample_padding = 0;
pub const KILN_SAMPLE_BORDER : kiln_sample_padding = 1;
pub const KILN_SAMPLE_REFLECTION : kiln_sample_padding = 2;
pub type kiln_sample_padding = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_grid_sample {
    pub size : u32,
    pub mode : u32,
    pub padding : u32,
    pub align_corners : u32 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_timestep_embedding {
    pub size : u32,
    pub cos_first : u32,
    pub shift : f64,
    pub max_period : f64 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_difference {
    pub size : u32,
    pub n : usize,
    pub x : * const f32,
    pub a : * const f32,
    pub b : * const f32,
    pub t : f64 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_dot {
    pub size : u32,
    pub terms : u32,
    pub n : usize,
    pub a : * const f64,
    pub b : * const f64,
    pub shift : f64,
    pub x : * const * const f32 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_blend {
    pub size : u32,
    pub pictures : usize,
    pub cells : usize,
    pub channels : usize,
    pub masks : usize,
    pub a : * const f32,
    pub b : * const f32,
    pub mask : * const f32 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_area {
    pub size : u32,
    pub pictures : i64,
    pub height : i64,
    pub width : i64,
    pub channels : i64,
    pub y : i64,
    pub x : i64,
    pub h : i64,
    pub w : i64 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_part {
    pub size : u32,
    pub data : * const f32,
    pub weight : * const f32,
    pub weights : i64 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_state_write {
    pub size : u32,
    pub axis : u32,
    pub offset : kiln_t,
    pub count : kiln_t ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_op_call {
    pub size : u32,
    pub n_in : u32,
    pub n_out : u32,
    pub device : u32,
    pub in_ : * const kiln_tensor,
    pub out : * const kiln_tensor,
    pub attributes : * const :: std :: os :: raw :: c_void,
    pub attribute_bytes : usize,
    pub fail : :: std :: option :: Option < unsafe extern "C" fn (engine : * mut :: std :: os :: raw :: c_void , format : * const :: std :: os :: raw :: c_char , ...) -> kiln_status >,
    pub engine : * mut :: std :: os :: raw :: c_void ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_op_result {
    pub rank : u32,
    pub dtype : u32,
    pub dim : * mut i64 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_op_operand {
    pub dtype : u32,
    pub rank : u32,
    pub dim : * const i64,
    pub low : f64,
    pub high : f64 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_op_example {
    pub size : u32,
    pub n_in : u32,
    pub name : * const :: std :: os :: raw :: c_char,
    pub attributes : * const :: std :: os :: raw :: c_void,
    pub attribute_bytes : usize,
    pub in_ : [kiln_op_operand ; 8usize] ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_op_kind {
    pub size : u32,
    pub version : u32,
    pub name : * const :: std :: os :: raw :: c_char,
    pub doc : * const :: std :: os :: raw :: c_char,
    pub n_in : u32,
    pub n_out : u32,
    pub types : u32,
    pub expression : * const :: std :: os :: raw :: c_char,
    pub shape : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_op_call , out : * mut kiln_op_result) -> kiln_status >,
    pub flops : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_op_call) -> u64 >,
    pub reference : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_op_call) -> kiln_status >,
    pub tiles : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_op_call) -> u64 >,
    pub workspace : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_op_call) -> usize >,
    pub tile : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_op_call , tile : u64 , workspace : * mut :: std :: os :: raw :: c_void) >,
    pub cuda_workspace : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_op_call) -> usize >,
    pub cuda : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_op_call , stream : * mut :: std :: os :: raw :: c_void , workspace : * mut :: std :: os :: raw :: c_void) -> kiln_status >,
    pub relative : f64,
    pub absolute : f64,
    pub example : * const kiln_op_example,
    pub n_example : u32,
    pub example_stride : u32 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_bind {
    pub size : u32,
    pub name : * const :: std :: os :: raw :: c_char,
    pub tensor : kiln_tensor ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_run {
    pub size : u32,
    pub states : * mut kiln_states,
    pub in_ : * const kiln_bind,
    pub out : * const kiln_bind,
    pub n_in : usize,
    pub n_out : usize ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_program_info {
    pub size : u32,
    pub n_recorded : u32,
    pub n_planned : u32,
    pub arena_bytes : u64,
    pub scratch_bytes : u64,
    pub weight_bytes : u64,
    pub flops : u64,
    pub precision : u32 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_ops {
    pub size : u32,
    pub program_new : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_program_options) -> * mut kiln_program >,
    pub program_keep : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , key : * const :: std :: os :: raw :: c_char , arg2 : * const kiln_program_options , fresh : * mut :: std :: os :: raw :: c_int) -> * mut kiln_program >,
    pub program_free : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program) >,
    pub input : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , name : * const :: std :: os :: raw :: c_char , dtype : u32 , rank : u32 , dim : * const i64) -> kiln_t >,
    pub output : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , name : * const :: std :: os :: raw :: c_char , arg2 : kiln_t) >,
    pub weight : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , set : * mut kiln_weights , name : * const :: std :: os :: raw :: c_char , rank : u32 , dim : * const i64) -> kiln_t >,
    pub weight_optional : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , set : * mut kiln_weights , name : * const :: std :: os :: raw :: c_char , rank : u32 , dim : * const i64) -> kiln_t >,
    pub constant : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , data : * const f32 , rank : u32 , dim : * const i64) -> kiln_t >,
    pub shape : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_program , arg2 : kiln_t , dim : * mut i64 , capacity : u32) -> u32 >,
    pub scope_push : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , name : * const :: std :: os :: raw :: c_char) >,
    pub scope_pop : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program) >,
    pub fail : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , fmt : * const :: std :: os :: raw :: c_char , ...) -> kiln_t >,
    pub error : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_program , message : * mut * const :: std :: os :: raw :: c_char) -> kiln_status >,
    pub conv2d : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , w : kiln_t , b : kiln_t , arg2 : * const kiln_conv2d) -> kiln_t >,
    pub linear : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , w : kiln_t , b : kiln_t) -> kiln_t >,
    pub attention : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , q : kiln_t , k : kiln_t , v : kiln_t , arg2 : * const kiln_attention) -> kiln_t >,
    pub group_norm : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , groups : i32 , eps : f32 , gamma : kiln_t , beta : kiln_t) -> kiln_t >,
    pub layer_norm : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , eps : f32 , gamma : kiln_t , beta : kiln_t) -> kiln_t >,
    pub add : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , a : kiln_t , b : kiln_t) -> kiln_t >,
    pub mul : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , a : kiln_t , b : kiln_t) -> kiln_t >,
    pub affine : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , scale : f32 , shift : f32) -> kiln_t >,
    pub act : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , kiln_act_kind : u32) -> kiln_t >,
    pub geglu : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t) -> kiln_t >,
    pub upsample_nearest : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , h : i64 , w : i64) -> kiln_t >,
    pub concat : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : * const kiln_t , n : u32 , axis : u32) -> kiln_t >,
    pub slice : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , axis : u32 , start : i64 , length : i64) -> kiln_t >,
    pub reshape : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , rank : u32 , dim : * const i64) -> kiln_t >,
    pub permute : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , axis : * const u32) -> kiln_t >,
    pub embedding : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , table : kiln_t , ids : kiln_t) -> kiln_t >,
    pub gather : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , index : kiln_t) -> kiln_t >,
    pub timestep_embedding : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , t : kiln_t , dim : i64 , arg2 : * const kiln_timestep_embedding) -> kiln_t >,
    pub plan : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * mut kiln_program , arg3 : * mut kiln_program_info) -> kiln_status >,
    pub run : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * mut kiln_program , in_ : * const kiln_bind , n_in : usize , out : * const kiln_bind , n_out : usize) -> kiln_status >,
    pub info : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_program , arg2 : * mut kiln_program_info) -> kiln_status >,
    pub step_invariant : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , input : kiln_t) >,
    pub device : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx) -> u32 >,
    pub upload : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , device : * mut f32 , host : * const f32 , n : usize) -> kiln_status >,
    pub download : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , host : * mut f32 , device : * const f32 , n : usize) -> kiln_status >,
    pub combine : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , out : * mut f32 , n : usize , terms : u32 , coefficient : * const f64 , x : * const * const f32) -> kiln_status >,
    pub add_difference : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_difference , out : * mut f32) -> kiln_status >,
    pub norm : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , x : * const f32 , n : usize , out : * mut f64) -> kiln_status >,
    pub dot : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_dot , out : * mut f64) -> kiln_status >,
    pub blend : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_blend , out : * mut f32) -> kiln_status >,
    pub crop : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_area , x : * const f32 , out : * mut f32) -> kiln_status >,
    pub accumulate : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_area , arg3 : * const kiln_part , sum : * mut f32 , total : * mut f32) -> kiln_status >,
    pub divide : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , x : * mut f32 , total : * const f32 , cells : usize , channels : usize) -> kiln_status >,
    pub fits : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_program) -> :: std :: os :: raw :: c_int >,
    pub map : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , expression : * const :: std :: os :: raw :: c_char , x : * const kiln_t , n : u32 , arg2 : * const kiln_map) -> kiln_t >,
    pub cast : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , dtype : u32) -> kiln_t >,
    pub expand : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , rank : u32 , dim : * const i64) -> kiln_t >,
    pub constant_i32 : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , data : * const i32 , rank : u32 , dim : * const i64) -> kiln_t >,
    pub precision_push : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , dtype : u32) >,
    pub precision_pop : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program) >,
    pub dtype : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_program , arg2 : kiln_t) -> u32 >,
    pub normalize : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , arg2 : * const kiln_norm) -> kiln_t >,
    pub rope : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , arg2 : * const kiln_rope) -> kiln_t >,
    pub softmax : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , options : * const kiln_softmax) -> kiln_t >,
    pub reduce : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , kind : u32 , axes : u32 , keep : u32) -> kiln_t >,
    pub topk : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , k : i64 , ascending : u32 , places : * mut kiln_t) -> kiln_t >,
    pub cumsum : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , axis : u32 , exclusive : u32 , reverse : u32) -> kiln_t >,
    pub bincount : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , bins : i64) -> kiln_t >,
    pub take : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , index : kiln_t , axis : u32) -> kiln_t >,
    pub take_along : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , index : kiln_t) -> kiln_t >,
    pub scatter : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , index : kiln_t , source : kiln_t , axis : u32 , add : u32) -> kiln_t >,
    pub random : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , seed : kiln_t , kind : u32 , rank : u32 , dim : * const i64) -> kiln_t >,
    pub matmul : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , a : kiln_t , b : kiln_t , arg2 : * const kiln_matmul) -> kiln_t >,
    pub linear_transposed : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , w : kiln_t , b : kiln_t) -> kiln_t >,
    pub grouped_linear : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , w : kiln_t , b : kiln_t , offsets : kiln_t) -> kiln_t >,
    pub conv : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , w : kiln_t , b : kiln_t , arg2 : * const kiln_conv) -> kiln_t >,
    pub interpolate : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , arg2 : * const kiln_interpolate) -> kiln_t >,
    pub pool : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , arg2 : * const kiln_pool) -> kiln_t >,
    pub pad : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , before : * const i64 , after : * const i64 , mode : u32 , value : f32) -> kiln_t >,
    pub grid_sample : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , grid : kiln_t , arg2 : * const kiln_grid_sample) -> kiln_t >,
    pub state : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , name : * const :: std :: os :: raw :: c_char , dtype : u32 , rank : u32 , dim : * const i64) -> kiln_t >,
    pub state_write : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , state : kiln_t , axis : u32 , offset : kiln_t , x : kiln_t) -> kiln_t >,
    pub states_new : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , label : * const :: std :: os :: raw :: c_char) -> * mut kiln_states >,
    pub states_fork : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * mut kiln_states) -> * mut kiln_states >,
    pub states_free : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_states) >,
    pub states_clear : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_states , name : * const :: std :: os :: raw :: c_char) >,
    pub states_bytes : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_states) -> usize >,
    pub states_save : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * mut kiln_states) -> * mut kiln_value >,
    pub states_load : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * mut kiln_states , arg3 : * const kiln_value) -> kiln_status >,
    pub run_with : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * mut kiln_program , arg3 : * const kiln_run) -> kiln_status >,
    pub register_op : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_op_kind) -> kiln_status >,
    pub custom : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , arg2 : * const kiln_op_kind , x : * const kiln_t , n : u32 , attributes : * const :: std :: os :: raw :: c_void , attribute_bytes : usize , more : * mut kiln_t) -> kiln_t >,
    pub precision : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_program) -> u32 >,
    pub arange : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , start : i64 , end : i64 , step : i64) -> kiln_t >,
    pub state_write_part : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , state : kiln_t , x : kiln_t , arg2 : * const kiln_state_write) -> kiln_t >,
    pub saturate : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , on : u32) >,
    pub find : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_weights , name : * const :: std :: os :: raw :: c_char , out : * mut kiln_weight_info) -> kiln_status >,
    pub group_norm_stats : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , groups : i32) -> kiln_t >,
    pub group_norm_apply : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_program , x : kiln_t , stats : kiln_t , eps : f32 , gamma : kiln_t , beta : kiln_t) -> kiln_t >,
    pub parts_are_exact : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx) -> :: std :: os :: raw :: c_int > ,}
pub const KILN_V_TENSOR : kiln_value_kind = 1;
pub const KILN_V_INT : kiln_value_kind = 2;
pub const KILN_V_FLOAT : kiln_value_kind = 3;
pub const KILN_V_BOOL : kiln_value_kind = 4;
pub const KILN_V_STRING : kiln_value_kind = 5;
pub const KILN_V_LIST : kiln_value_kind = 6;
pub const KILN_V_MAP : kiln_value_kind = 7;
pub const KILN_V_OBJECT : kiln_value_kind = 8;
pub type kiln_value_kind = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_value_api {
    pub size : u32,
    pub kind : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_value) -> u32 >,
    pub new_int : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : i64) -> * mut kiln_value >,
    pub new_float : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : f64) -> * mut kiln_value >,
    pub new_bool : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : :: std :: os :: raw :: c_int) -> * mut kiln_value >,
    pub new_string : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , bytes : * const :: std :: os :: raw :: c_char , n : usize) -> * mut kiln_value >,
    pub new_list : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx) -> * mut kiln_value >,
    pub new_map : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx) -> * mut kiln_value >,
    pub new_object : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , type_ : * const :: std :: os :: raw :: c_char , ptr : * mut :: std :: os :: raw :: c_void , release : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut :: std :: os :: raw :: c_void) > , fingerprint : * const :: std :: os :: raw :: c_char) -> * mut kiln_value >,
    pub list_copy : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_value) -> * mut kiln_value >,
    pub map_copy : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_value) -> * mut kiln_value >,
    pub list_push : :: std :: option :: Option < unsafe extern "C" fn (list : * mut kiln_value , item : * mut kiln_value) -> kiln_status >,
    pub map_set : :: std :: option :: Option < unsafe extern "C" fn (map : * mut kiln_value , key : * const :: std :: os :: raw :: c_char , item : * mut kiln_value) -> kiln_status >,
    pub get_int : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_value , out : * mut i64) -> kiln_status >,
    pub get_float : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_value , out : * mut f64) -> kiln_status >,
    pub get_bool : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_value , out : * mut :: std :: os :: raw :: c_int) -> kiln_status >,
    pub get_string : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_value , n : * mut usize) -> * const :: std :: os :: raw :: c_char >,
    pub count : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_value) -> usize >,
    pub list_at : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_value , i : usize) -> * mut kiln_value >,
    pub map_get : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_value , key : * const :: std :: os :: raw :: c_char) -> * mut kiln_value >,
    pub map_at : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_value , i : usize , key : * mut * const :: std :: os :: raw :: c_char) -> * mut kiln_value >,
    pub object : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_value , type_ : * const :: std :: os :: raw :: c_char) -> * mut :: std :: os :: raw :: c_void >,
    pub object_type : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_value) -> * const :: std :: os :: raw :: c_char >,
    pub object_fingerprint : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_value) -> * const :: std :: os :: raw :: c_char > ,}
pub const KILN_INPUT_TOKENS : kiln_input_kind = 1;
pub const KILN_INPUT_VECTOR : kiln_input_kind = 2;
pub const KILN_INPUT_SCALAR : kiln_input_kind = 3;
pub const KILN_INPUT_LATENT : kiln_input_kind = 4;
pub const KILN_INPUT_IMAGE : kiln_input_kind = 5;
pub const KILN_INPUT_MASK : kiln_input_kind = 6;
pub const KILN_INPUT_LENGTHS : kiln_input_kind = 7;
pub const KILN_INPUT_IDS : kiln_input_kind = 8;
pub const KILN_INPUT_TABLE : kiln_input_kind = 9;
pub const KILN_INPUT_LATENTS : kiln_input_kind = 10;
pub type kiln_input_kind = :: std :: os :: raw :: c_uint;
pub const KILN_BATCH_APART : kiln_batch_rule = 0;
pub const KILN_BATCH_PAD : kiln_batch_rule = 1;
pub const KILN_BATCH_REPEAT : kiln_batch_rule = 2;
pub const KILN_BATCH_REFUSE : kiln_batch_rule = 3;
pub type kiln_batch_rule = :: std :: os :: raw :: c_uint;
pub const KILN_INPUT_OPTIONAL : _bindgen_ty_8 = 1;
pub const KILN_INPUT_OMITTED : _bindgen_ty_8 = 2;
pub const KILN_INPUT_MODEL_SPACE : _bindgen_ty_8 = 4;
pub const KILN_INPUT_CHANGES : _bindgen_ty_8 = 8;
pub const KILN_INPUT_SIDED : _bindgen_ty_8 = 16;
pub const KILN_INPUT_CENTRED : _bindgen_ty_8 = 32;
pub const KILN_INPUT_NEAREST : _bindgen_ty_8 = 64;
pub type _bindgen_ty_8 = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_input_spec {
    pub size : u32,
    pub kind : u32,
    pub flags : u32,
    pub batch : u32,
    pub name : * const :: std :: os :: raw :: c_char,
    pub doc : * const :: std :: os :: raw :: c_char,
    pub key : * const :: std :: os :: raw :: c_char,
    pub width : i64,
    pub fallback : f64,
    pub fallback_unconditional : f64,
    pub fallback_from : * const :: std :: os :: raw :: c_char,
    pub of : * const :: std :: os :: raw :: c_char ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_named_tensor {
    pub size : u32,
    pub name : * const :: std :: os :: raw :: c_char,
    pub tensor : kiln_t,
    pub owner : * const :: std :: os :: raw :: c_void ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_outputs {
    pub size : u32,
    pub self_ : * mut :: std :: os :: raw :: c_void,
    pub add : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_outputs , name : * const :: std :: os :: raw :: c_char , arg2 : kiln_t) > ,}
pub const KILN_PLACE_POINT : _bindgen_ty_9 = 1;
pub const KILN_PLACE_BLOCK : _bindgen_ty_9 = 2;
pub const KILN_PLACE_ATTENTION : _bindgen_ty_9 = 4;
pub type _bindgen_ty_9 = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_residual {
    pub size : u32,
    pub place : * const :: std :: os :: raw :: c_char,
    pub tensor : kiln_t ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_batch_member {
    pub size : u32,
    pub unconditional : u32,
    pub pictures : i64 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_denoise_inputs {
    pub size : u32,
    pub n_stream : u32,
    pub x : kiln_t,
    pub stream : * const kiln_t,
    pub timestep : kiln_t,
    pub input : * const kiln_named_tensor,
    pub n_input : usize,
    pub hook : * const * const kiln_hook,
    pub n_hook : usize,
    pub residual : * const kiln_residual,
    pub n_residual : usize,
    pub out : * const kiln_outputs,
    pub member : * const kiln_batch_member,
    pub n_member : usize ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_recording {
    pub size : u32,
    pub ops : * const kiln_ops,
    pub program : * mut kiln_program,
    pub in_ : * const kiln_denoise_inputs ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_attention_stream {
    pub size : u32,
    pub name : * const :: std :: os :: raw :: c_char,
    pub first : i64,
    pub tokens : i64 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_attention_info {
    pub size : u32,
    pub heads : i32,
    pub place : * const :: std :: os :: raw :: c_char,
    pub x : kiln_t,
    pub context : kiln_t,
    pub q : kiln_t,
    pub k : kiln_t,
    pub v : kiln_t,
    pub mask : kiln_t,
    pub scale : f32,
    pub causal : u32,
    pub grid : [i64 ; 3usize],
    pub more : * const kiln_attention,
    pub stream : * const kiln_attention_stream,
    pub n_stream : usize ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_place_info {
    pub size : u32,
    pub place : * const :: std :: os :: raw :: c_char,
    pub timestep_embedding : kiln_t,
    pub input : kiln_t,
    pub attention : * const kiln_attention_info,
    pub beside : kiln_t ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_hook {
    pub size : u32,
    pub n_input : u32,
    pub input_stride : u32,
    pub self_ : * mut :: std :: os :: raw :: c_void,
    pub identity : * const :: std :: os :: raw :: c_char,
    pub place : * const * const :: std :: os :: raw :: c_char,
    pub start : f64,
    pub end : f64,
    pub input : * const kiln_input_spec,
    pub values : * const kiln_value,
    pub at : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_hook , arg2 : * const kiln_recording , x : kiln_t , arg3 : * const kiln_place_info) -> kiln_t >,
    pub before_attention : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_hook , arg2 : * const kiln_recording , arg3 : * mut kiln_attention_info) >,
    pub attention : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_hook , arg2 : * const kiln_recording , arg3 : * const kiln_attention_info) -> kiln_t >,
    pub leaves_out : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_hook , place : * const :: std :: os :: raw :: c_char) -> :: std :: os :: raw :: c_int >,
    pub output : * const * const :: std :: os :: raw :: c_char ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_latent { _unused : [u8 ; 0] ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_latent_shape {
    pub pictures : i64,
    pub frames : i64,
    pub height : i64,
    pub width : i64,
    pub channels : i64,
    pub rank : i64 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_latent_place {
    pub y : i64,
    pub x : i64 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_latent_dot {
    pub size : u32,
    pub n : usize,
    pub a : * const f64,
    pub b : * const f64,
    pub shift : * const f64,
    pub x : * const * mut kiln_latent ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_latents {
    pub size : u32,
    pub self_ : * mut :: std :: os :: raw :: c_void,
    pub create : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_latents , arg2 : * const kiln_latent_shape) -> * mut kiln_latent >,
    pub shape : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_latents , arg2 : * const kiln_latent) -> kiln_latent_shape >,
    pub lincomb : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_latents , out : * mut kiln_latent , n : usize , coefficient : * const f64 , x : * const * mut kiln_latent) >,
    pub lincomb_each : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_latents , out : * mut kiln_latent , n : usize , coefficient : * const f64 , x : * const * mut kiln_latent) >,
    pub add_difference : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_latents , out : * mut kiln_latent , x : * const kiln_latent , t : f64 , a : * const kiln_latent , b : * const kiln_latent) >,
    pub norm : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_latents , x : * const kiln_latent) -> f64 >,
    pub dot : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_latents , arg2 : * const kiln_latent_dot , out : * mut f64) >,
    pub blend : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_latents , out : * mut kiln_latent , a : * const kiln_latent , b : * const kiln_latent , mask : * const kiln_latent) >,
    pub crop : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_latents , out : * mut kiln_latent , x : * const kiln_latent , from : kiln_latent_place) >,
    pub accumulate : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_latents , sum : * mut kiln_latent , total : * mut kiln_latent , part : * const kiln_latent , weight : * const kiln_latent , to : kiln_latent_place) >,
    pub divide : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_latents , x : * mut kiln_latent , total : * const kiln_latent) >,
    pub upload : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_latents , x : * mut kiln_latent , data : * const f32) >,
    pub download : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_latents , x : * const kiln_latent , data : * mut f32) >,
    pub paste : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_latents , x : * mut kiln_latent , part : * const kiln_latent , to : kiln_latent_place) >,
    pub roll : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_latents , out : * mut kiln_latent , x : * const kiln_latent , by : kiln_latent_place) >,
    pub resize : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_latents , out : * mut kiln_latent , x : * const kiln_latent , method : u32) >,
    pub random : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_latents , out : * mut kiln_latent , seed : u64) >,
    pub count : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_latents , arg2 : * const kiln_latent) -> usize > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_saving {
    pub size : u32,
    pub alone : u32,
    pub host : * const kiln_host,
    pub ctx : * mut kiln_ctx,
    pub encoder : u32,
    pub self_ : * mut :: std :: os :: raw :: c_void,
    pub tensor : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_saving , arg2 : * const kiln_weight_row) -> kiln_status >,
    pub text : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_saving , key : * const :: std :: os :: raw :: c_char , value : * const :: std :: os :: raw :: c_char) -> kiln_status >,
    pub called : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_saving , name : * const :: std :: os :: raw :: c_char) -> kiln_status > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_latent_scaling {
    pub size : u32,
    pub n : u32,
    pub scale : * const f64,
    pub shift : * const f64 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_latent_format {
    pub size : u32,
    pub rank : i32,
    pub channels : i32,
    pub factor : i32,
    pub time_factor : i32,
    pub time_first : i32,
    pub scaling : * const kiln_latent_scaling,
    pub rgb : * const [f32 ; 3usize],
    pub patch : i32,
    pub time_patch : i32,
    pub rgb_bias : * const f32 ,}
pub const KILN_PROCESS_DIFFUSION : kiln_process = 1;
pub const KILN_PROCESS_FLOW : kiln_process = 2;
pub const KILN_PROCESS_IMAGE : kiln_process = 3;
pub type kiln_process = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_level {
    pub size : u32,
    pub input : f64,
    pub of_x : f64,
    pub of_prediction : f64,
    pub clean : f64,
    pub noise : f64 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_run_facts {
    pub size : u32,
    pub cells : i64,
    pub steps : i64 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_model_sampling {
    pub size : u32,
    pub process : u32,
    pub self_ : * const :: std :: os :: raw :: c_void,
    pub identity : * const :: std :: os :: raw :: c_char,
    pub sigma_min : f64,
    pub sigma_max : f64,
    pub sigma : * const f64,
    pub n_sigma : u32,
    pub level : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_model_sampling , sigma : f64 , out : * mut kiln_level) >,
    pub timestep : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_model_sampling , sigma : f64) -> f64 >,
    pub sigma_at : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_model_sampling , timestep : f64 , arg2 : * const kiln_run_facts) -> f64 >,
    pub percent_to_sigma : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_model_sampling , percent : f64 , arg2 : * const kiln_run_facts) -> f64 >,
    pub start : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_model_sampling , sigma : f64 , clean : * mut f64 , noise : * mut f64) >,
    pub end : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_model_sampling , sigma : f64 , scale : * mut f64 , shift : * mut f64) > ,}
pub const KILN_TIMESTEP_PICTURE : kiln_timestep_kind = 0;
pub const KILN_TIMESTEP_FRAME : kiln_timestep_kind = 1;
pub const KILN_TIMESTEP_TOKEN : kiln_timestep_kind = 2;
pub type kiln_timestep_kind = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_derivation {
    pub size : u32,
    pub host : * const kiln_host,
    pub ctx : * mut kiln_ctx,
    pub conditioning : * const kiln_value,
    pub latent : * const kiln_value,
    pub dim : * const i64,
    pub rank : u32,
    pub estimate : u32,
    pub unconditional : u32,
    pub self_ : * mut :: std :: os :: raw :: c_void,
    pub add : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_derivation , name : * const :: std :: os :: raw :: c_char , arg2 : * const kiln_tensor) >,
    pub seed : u64,
    pub randn : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_derivation , seed : u64 , out : * mut f32 , n : usize) > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_denoiser {
    pub size : u32,
    pub family : * const :: std :: os :: raw :: c_char,
    pub self_ : * mut :: std :: os :: raw :: c_void,
    pub latent : * const kiln_latent_format,
    pub sampling : * const kiln_model_sampling,
    pub timestep : u32,
    pub n_input : u32,
    pub input_stride : u32,
    pub input : * const kiln_input_spec,
    pub record : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_denoiser , arg2 : * const kiln_ops , arg3 : * mut kiln_program , weights : * mut kiln_weights , arg4 : * const kiln_denoise_inputs) -> kiln_t >,
    pub places : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_denoiser , fn_ : :: std :: option :: Option < unsafe extern "C" fn (arg : * mut :: std :: os :: raw :: c_void , place : * const :: std :: os :: raw :: c_char , kind : u32) > , arg : * mut :: std :: os :: raw :: c_void) >,
    pub derive : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_denoiser , arg2 : * const kiln_derivation) -> kiln_status >,
    pub derive_key : * const * const :: std :: os :: raw :: c_char,
    pub stream : * const kiln_latent_format,
    pub n_stream : u32,
    pub stream_stride : u32,
    pub architecture : * const :: std :: os :: raw :: c_char,
    pub precisions : u32,
    pub save : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_denoiser , arg2 : * const kiln_model , arg3 : * const kiln_saving) -> kiln_status > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_further_guess {
    pub size : u32,
    pub unconditional : u32,
    pub x : * mut kiln_latent,
    pub hook : * const * const kiln_hook,
    pub n_hook : usize ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_guesses {
    pub size : u32,
    pub sampling : * const kiln_model_sampling,
    pub latents : * const kiln_latents,
    pub sigma : f64,
    pub cfg : f64,
    pub x : * mut kiln_latent,
    pub positive : * mut kiln_latent,
    pub negative : * mut kiln_latent,
    pub extra : * mut kiln_latent,
    pub x0 : * mut kiln_latent,
    pub memory : * mut kiln_latent,
    pub memory_sigma : f64,
    pub self_ : * mut :: std :: os :: raw :: c_void,
    pub evaluate : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_guesses , arg2 : * const kiln_further_guess , out : * mut * mut kiln_latent) -> kiln_status >,
    pub fail : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_guesses , status : kiln_status , fmt : * const :: std :: os :: raw :: c_char , ...) -> kiln_status >,
    pub output : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_guesses , arg2 : * const kiln_hook , name : * const :: std :: os :: raw :: c_char , unconditional : u32 , out : * mut * mut kiln_latent) -> kiln_status > ,}
pub const KILN_GUIDANCE_REPLACE : _bindgen_ty_10 = 1;
pub const KILN_GUIDANCE_UNCONDITIONAL : _bindgen_ty_10 = 2;
pub const KILN_GUIDANCE_BEFORE : _bindgen_ty_10 = 4;
pub const KILN_GUIDANCE_REMEMBERS : _bindgen_ty_10 = 8;
pub type _bindgen_ty_10 = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_guidance {
    pub size : u32,
    pub flags : u32,
    pub self_ : * mut :: std :: os :: raw :: c_void,
    pub identity : * const :: std :: os :: raw :: c_char,
    pub conditioning : * const kiln_value,
    pub apply : :: std :: option :: Option < unsafe extern "C" fn (self_ : * mut :: std :: os :: raw :: c_void , arg1 : * const kiln_guesses) -> kiln_status > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_mask_rule {
    pub size : u32,
    pub identity : * const :: std :: os :: raw :: c_char,
    pub self_ : * const :: std :: os :: raw :: c_void,
    pub at : :: std :: option :: Option < unsafe extern "C" fn (self_ : * const :: std :: os :: raw :: c_void , arg1 : * const kiln_model_sampling , sigma : f64 , first : f64 , last : f64 , mask : f64) -> f64 > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_window {
    pub size : u32,
    pub n : u32,
    pub x : * mut i64,
    pub inputs : * mut i64,
    pub to : * mut i64,
    pub weight : * mut f64 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_windows {
    pub size : u32,
    pub split : u32,
    pub identity : * const :: std :: os :: raw :: c_char,
    pub self_ : * const :: std :: os :: raw :: c_void,
    pub at : :: std :: option :: Option < unsafe extern "C" fn (self_ : * const :: std :: os :: raw :: c_void , pictures : i64 , step : i64 , i : usize , out : * mut kiln_window) -> :: std :: os :: raw :: c_int >,
    pub noise : :: std :: option :: Option < unsafe extern "C" fn (self_ : * const :: std :: os :: raw :: c_void , pictures : i64 , seed : u64 , from : * mut i64) -> :: std :: os :: raw :: c_int > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_model_range {
    pub size : u32,
    pub name : * const :: std :: os :: raw :: c_char,
    pub below : f64,
    pub model : * const kiln_value ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_model {
    pub size : u32,
    pub denoiser : * const kiln_denoiser,
    pub weights : * mut kiln_weights,
    pub hook : * const * const kiln_hook,
    pub n_hook : usize,
    pub sampling : * const kiln_model_sampling,
    pub guidance : * const * const kiln_guidance,
    pub n_guidance : usize,
    pub latent : * const kiln_latent_scaling,
    pub range : * const kiln_model_range,
    pub n_range : usize,
    pub name : * const :: std :: os :: raw :: c_char,
    pub owned : * mut :: std :: os :: raw :: c_void,
    pub release : :: std :: option :: Option < unsafe extern "C" fn (owned : * mut :: std :: os :: raw :: c_void) >,
    pub base : * mut kiln_value,
    pub mask_rule : * const kiln_mask_rule,
    pub windows : * const kiln_windows ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_tile_advice {
    pub size : u32,
    pub height : i32,
    pub width : i32,
    pub frames : i32,
    pub overlap : i32,
    pub frame_overlap : i32 ,}
pub const KILN_PART_FIRST : _bindgen_ty_11 = 1;
pub const KILN_PART_LATER : _bindgen_ty_11 = 2;
pub type _bindgen_ty_11 = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_latent_distribution {
    pub size : u32,
    pub mean : kiln_t,
    pub log_variance : kiln_t ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_autoencoder {
    pub size : u32,
    pub family : * const :: std :: os :: raw :: c_char,
    pub self_ : * mut :: std :: os :: raw :: c_void,
    pub latent : * const kiln_latent_format,
    pub image_channels : i32,
    pub tile : * const kiln_tile_advice,
    pub record_encode : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_autoencoder , arg2 : * const kiln_ops , arg3 : * mut kiln_program , weights : * mut kiln_weights , image : kiln_t , out : * mut kiln_latent_distribution) >,
    pub record_decode : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_autoencoder , arg2 : * const kiln_ops , arg3 : * mut kiln_program , weights : * mut kiln_weights , latent : kiln_t) -> kiln_t >,
    pub input : * const kiln_input_spec,
    pub n_input : u32,
    pub input_stride : u32,
    pub pictures : i32,
    pub architecture : * const :: std :: os :: raw :: c_char,
    pub precisions : u32,
    pub save : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_autoencoder , weights : * mut kiln_weights , arg2 : * const kiln_saving) -> kiln_status >,
    pub together : u32,
    pub record_encode_part : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_autoencoder , arg2 : * const kiln_ops , arg3 : * mut kiln_program , weights : * mut kiln_weights , image : kiln_t , part : u32 , out : * mut kiln_latent_distribution) >,
    pub record_decode_part : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_autoencoder , arg2 : * const kiln_ops , arg3 : * mut kiln_program , weights : * mut kiln_weights , latent : kiln_t , part : u32) -> kiln_t >,
    pub part_cells : i64 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_vae {
    pub size : u32,
    pub autoencoder : * const kiln_autoencoder,
    pub weights : * mut kiln_weights,
    pub owned : * mut :: std :: os :: raw :: c_void,
    pub release : :: std :: option :: Option < unsafe extern "C" fn (owned : * mut :: std :: os :: raw :: c_void) >,
    pub base : * mut kiln_value ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_vae_api {
    pub size : u32,
    pub decode : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call , vae : * const kiln_value , latent : * const kiln_value , image : * mut * mut kiln_value) -> kiln_status >,
    pub encode : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call , vae : * const kiln_value , image : * const kiln_value , latent : * mut * mut kiln_value) -> kiln_status > ,}
pub const KILN_NETWORK_APART : _bindgen_ty_16 = 1;
pub type _bindgen_ty_16 = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_network {
    pub size : u32,
    pub flags : u32,
    pub family : * const :: std :: os :: raw :: c_char,
    pub self_ : * mut :: std :: os :: raw :: c_void,
    pub input : * const kiln_input_spec,
    pub n_input : u32,
    pub input_stride : u32,
    pub record : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_network , arg2 : * const kiln_ops , arg3 : * mut kiln_program , weights : * mut kiln_weights , in_ : * const kiln_named_tensor , n_in : usize , out : * const kiln_outputs) >,
    pub facts : * const kiln_value,
    pub architecture : * const :: std :: os :: raw :: c_char,
    pub precisions : u32,
    pub over : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_network , arg2 : * mut kiln_ctx , own : * mut kiln_weights , denoiser : * mut kiln_weights) -> * const kiln_net > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_net {
    pub size : u32,
    pub network : * const kiln_network,
    pub weights : * mut kiln_weights,
    pub owned : * mut :: std :: os :: raw :: c_void,
    pub release : :: std :: option :: Option < unsafe extern "C" fn (owned : * mut :: std :: os :: raw :: c_void) >,
    pub base : * mut kiln_value ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_tokenizer { _unused : [u8 ; 0] ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_tokenizer_file {
    pub size : u32,
    pub name : * const :: std :: os :: raw :: c_char,
    pub data : * const :: std :: os :: raw :: c_void,
    pub bytes : usize ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_tokenizer_source {
    pub size : u32,
    pub kind : * const :: std :: os :: raw :: c_char,
    pub file : * const kiln_tokenizer_file,
    pub n_file : usize ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_tokenizer_input {
    pub size : u32,
    pub text : * const :: std :: os :: raw :: c_char,
    pub n : usize,
    pub special : u32,
    pub ends : u32,
    pub weight : * const f32 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_encoding {
    pub size : u32,
    pub n : usize,
    pub id : * mut i32,
    pub weight : * mut f32,
    pub from : * mut u32,
    pub to : * mut u32 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_chat_message {
    pub size : u32,
    pub role : * const :: std :: os :: raw :: c_char,
    pub content : * const :: std :: os :: raw :: c_char ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_tokenizer_api {
    pub size : u32,
    pub open : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_tokenizer_source) -> * mut kiln_tokenizer >,
    pub ref_ : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_tokenizer) -> * mut kiln_tokenizer >,
    pub unref : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_tokenizer) >,
    pub encode : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_tokenizer , arg2 : * const kiln_tokenizer_input , out : * mut kiln_encoding , why : * mut :: std :: os :: raw :: c_char) -> kiln_status >,
    pub encoding_free : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_encoding) >,
    pub decode : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_tokenizer , id : * const i32 , n : usize , special : u32 , out : * mut :: std :: os :: raw :: c_char , capacity : usize) -> usize >,
    pub special : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_tokenizer , name : * const :: std :: os :: raw :: c_char) -> i32 >,
    pub render : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_tokenizer , template_name : * const :: std :: os :: raw :: c_char , arg2 : * const kiln_chat_message , n : usize , open_turn : u32 , out : * mut :: std :: os :: raw :: c_char , capacity : usize , why : * mut :: std :: os :: raw :: c_char) -> usize >,
    pub count : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_tokenizer) -> i32 >,
    pub kind : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_tokenizer) -> * const :: std :: os :: raw :: c_char >,
    pub identity : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_tokenizer) -> * const :: std :: os :: raw :: c_char > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_tokens {
    pub size : u32,
    pub n_chunk : u32,
    pub length : u32,
    pub id : * mut i32,
    pub weight : * mut f32,
    pub end : * mut i32,
    pub count : * mut i32,
    pub vector : * mut * const f32 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_text_inputs {
    pub size : u32,
    pub layer : i32,
    pub ids : kiln_t,
    pub end : kiln_t,
    pub count : kiln_t,
    pub vectors : kiln_t,
    pub by_id : kiln_t ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_text_features {
    pub size : u32,
    pub tokens : kiln_t,
    pub pooled : kiln_t,
    pub count : kiln_t ,}
pub const KILN_TEXT_VECTORS : _bindgen_ty_17 = 4;
pub const KILN_TEXT_COUNTED : _bindgen_ty_17 = 2;
pub const KILN_TEXT_WEIGHTED : _bindgen_ty_17 = 1;
pub type _bindgen_ty_17 = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_text_encoder {
    pub size : u32,
    pub flags : u32,
    pub family : * const :: std :: os :: raw :: c_char,
    pub self_ : * mut :: std :: os :: raw :: c_void,
    pub width : i64,
    pub pooled_width : i64,
    pub layers : i32,
    pub default_layer : i32,
    pub min_length : i64,
    pub max_length : i64,
    pub tokenise : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_text_encoder , tokenizer : * const kiln_tokenizer , arg2 : * const kiln_host , arg3 : * mut kiln_ctx , text : * const :: std :: os :: raw :: c_char , out : * mut kiln_tokens) -> kiln_status >,
    pub record : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_text_encoder , arg2 : * const kiln_ops , arg3 : * mut kiln_program , weights : * mut kiln_weights , arg4 : * const kiln_text_inputs , out : * mut kiln_text_features) >,
    pub architecture : * const :: std :: os :: raw :: c_char,
    pub precisions : u32 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_clip_encoder {
    pub size : u32,
    pub layer : i32,
    pub name : * const :: std :: os :: raw :: c_char,
    pub encoder : * const kiln_text_encoder,
    pub weights : * mut kiln_weights,
    pub tokenizer : * mut kiln_tokenizer ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_combined {
    pub size : u32,
    pub name : * const :: std :: os :: raw :: c_char,
    pub tokens : kiln_t,
    pub pooled : kiln_t,
    pub count : kiln_t ,}
pub const KILN_CLIP_EQUAL_CHUNKS : _bindgen_ty_18 = 1;
pub type _bindgen_ty_18 = :: std :: os :: raw :: c_uint;
pub const KILN_CLIP_HOOKS_SCHEDULED : _bindgen_ty_19 = 1;
pub const KILN_CLIP_HOOKS_ON_ENTRIES : _bindgen_ty_19 = 2;
pub type _bindgen_ty_19 = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_clip {
    pub size : u32,
    pub flags : u32,
    pub n_encoder : u32,
    pub encoder : * const kiln_clip_encoder,
    pub combine : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_clip , arg2 : * const kiln_ops , arg3 : * mut kiln_program , arg4 : * const kiln_combined , n : usize , out : * const kiln_outputs) >,
    pub self_ : * mut :: std :: os :: raw :: c_void,
    pub identity : * const :: std :: os :: raw :: c_char,
    pub owned : * mut :: std :: os :: raw :: c_void,
    pub release : :: std :: option :: Option < unsafe extern "C" fn (owned : * mut :: std :: os :: raw :: c_void) >,
    pub base : * mut kiln_value,
    pub hooks : * mut kiln_value,
    pub hook_flags : u32,
    pub save : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_clip , arg2 : * const kiln_saving) -> kiln_status > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_prompt {
    pub size : u32,
    pub encoder : * const :: std :: os :: raw :: c_char,
    pub text : * const :: std :: os :: raw :: c_char ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_text_api {
    pub size : u32,
    pub encode : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call , clip : * const kiln_value , arg2 : * const kiln_prompt , n : usize , out : * mut * mut kiln_value) -> kiln_status > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_model_family {
    pub size : u32,
    pub kind : * const :: std :: os :: raw :: c_char,
    pub name : * const :: std :: os :: raw :: c_char,
    pub doc : * const :: std :: os :: raw :: c_char,
    pub detect : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_weights_api , set : * const kiln_weights) -> :: std :: os :: raw :: c_int >,
    pub open : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_host , arg2 : * mut kiln_ctx , set : * mut kiln_weights) -> * mut kiln_value >,
    pub type_ : * const * const :: std :: os :: raw :: c_char ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_model_api {
    pub size : u32,
    pub register_family : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_model_family) -> kiln_status >,
    pub family_count : :: std :: option :: Option < unsafe extern "C" fn (kind : * const :: std :: os :: raw :: c_char) -> usize >,
    pub family_at : :: std :: option :: Option < unsafe extern "C" fn (kind : * const :: std :: os :: raw :: c_char , i : usize) -> * const kiln_model_family >,
    pub detect : :: std :: option :: Option < unsafe extern "C" fn (kind : * const :: std :: os :: raw :: c_char , set : * const kiln_weights) -> * const kiln_model_family >,
    pub model_new : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_model) -> * mut kiln_value >,
    pub clip_new : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_clip) -> * mut kiln_value >,
    pub vae_new : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_vae) -> * mut kiln_value >,
    pub net_new : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , type_ : * const :: std :: os :: raw :: c_char , arg2 : * const kiln_net) -> * mut kiln_value >,
    pub model : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_value) -> * const kiln_model >,
    pub clip : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_value) -> * const kiln_clip >,
    pub vae : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_value) -> * const kiln_vae >,
    pub net : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_value , type_ : * const :: std :: os :: raw :: c_char) -> * const kiln_net > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_entry_hook {
    pub size : u32,
    pub self_ : * mut :: std :: os :: raw :: c_void,
    pub denoiser : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_entry_hook , arg2 : * const kiln_call , arg3 : * const kiln_model , before : * mut kiln_weights , strength : f64) -> * mut kiln_weights >,
    pub text : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_entry_hook , arg2 : * const kiln_call , arg3 : * const kiln_clip , before : * const * mut kiln_weights , strength : f64 , out : * mut * mut kiln_weights) -> kiln_status > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_keyframe {
    pub strength : f64,
    pub start : f64,
    pub guarantee : i64 ,}
pub const KILN_FILES_OUTPUT : _bindgen_ty_20 = 1;
pub const KILN_FILES_TEMP : _bindgen_ty_20 = 2;
pub type _bindgen_ty_20 = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_files_api {
    pub size : u32,
    pub create : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , where_ : u32 , prefix : * const :: std :: os :: raw :: c_char , extension : * const :: std :: os :: raw :: c_char) -> * mut kiln_file >,
    pub write : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_file , bytes : * const :: std :: os :: raw :: c_void , n : usize) -> kiln_status >,
    pub commit : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_file , path : * mut * const :: std :: os :: raw :: c_char) -> kiln_status >,
    pub text : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , name : * const :: std :: os :: raw :: c_char) -> * const :: std :: os :: raw :: c_char >,
    pub check : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , prefix : * const :: std :: os :: raw :: c_char) -> kiln_status > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_graph_api {
    pub size : u32,
    pub node : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_graph , name : * const :: std :: os :: raw :: c_char , type_ : * const :: std :: os :: raw :: c_char) -> kiln_status >,
    pub set_int : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_graph , node : * const :: std :: os :: raw :: c_char , input : * const :: std :: os :: raw :: c_char , value : i64) -> kiln_status >,
    pub set_seed : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_graph , node : * const :: std :: os :: raw :: c_char , input : * const :: std :: os :: raw :: c_char , value : u64) -> kiln_status >,
    pub set_float : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_graph , node : * const :: std :: os :: raw :: c_char , input : * const :: std :: os :: raw :: c_char , value : f64) -> kiln_status >,
    pub set_bool : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_graph , node : * const :: std :: os :: raw :: c_char , input : * const :: std :: os :: raw :: c_char , value : :: std :: os :: raw :: c_int) -> kiln_status >,
    pub set_text : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_graph , node : * const :: std :: os :: raw :: c_char , input : * const :: std :: os :: raw :: c_char , value : * const :: std :: os :: raw :: c_char) -> kiln_status >,
    pub wire : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_graph , node : * const :: std :: os :: raw :: c_char , input : * const :: std :: os :: raw :: c_char , from : * const :: std :: os :: raw :: c_char , output : * const :: std :: os :: raw :: c_char) -> kiln_status >,
    pub pass : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_graph , node : * const :: std :: os :: raw :: c_char , input : * const :: std :: os :: raw :: c_char , own : * const :: std :: os :: raw :: c_char) -> kiln_status >,
    pub output : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_graph , own : * const :: std :: os :: raw :: c_char , node : * const :: std :: os :: raw :: c_char , output : * const :: std :: os :: raw :: c_char) -> kiln_status >,
    pub output_passed : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_graph , own : * const :: std :: os :: raw :: c_char , in_ : * const :: std :: os :: raw :: c_char) -> kiln_status >,
    pub wires : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_graph , own : * const :: std :: os :: raw :: c_char) -> u32 > ,}
pub const KILN_LOAD_OPTIONAL : _bindgen_ty_21 = 1;
pub const KILN_LOAD_EMA : _bindgen_ty_21 = 2;
pub type _bindgen_ty_21 = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_load {
    pub size : u32,
    pub flags : u32,
    pub path : * const :: std :: os :: raw :: c_char,
    pub set : * mut kiln_weights,
    pub kind : * const * const :: std :: os :: raw :: c_char,
    pub n : usize,
    pub type_ : * const :: std :: os :: raw :: c_char ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_loading_api {
    pub size : u32,
    pub load : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call , arg2 : * const kiln_load , out : * mut * mut kiln_value) -> kiln_status >,
    pub check : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call , kind : * const :: std :: os :: raw :: c_char , arg2 : * const kiln_value) -> kiln_status >,
    pub needless : :: std :: option :: Option < unsafe extern "C" fn (tensor : * const :: std :: os :: raw :: c_char) -> :: std :: os :: raw :: c_int > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_param_table {
    pub size : u32,
    pub noun : * const :: std :: os :: raw :: c_char,
    pub owner : * const :: std :: os :: raw :: c_char,
    pub param : * const kiln_param,
    pub n_param : u32,
    pub param_stride : u32,
    pub params_size : usize ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_params_api {
    pub size : u32,
    pub fill : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_param_table , map : * const kiln_value , params : * mut :: std :: os :: raw :: c_void) -> kiln_status >,
    pub to_map : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_param_table , params : * const :: std :: os :: raw :: c_void , map : * mut kiln_value) -> kiln_status >,
    pub parse : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_param_table , text : * const :: std :: os :: raw :: c_char , map : * mut kiln_value) -> kiln_status >,
    pub nearest : :: std :: option :: Option < unsafe extern "C" fn (name : * const :: std :: os :: raw :: c_char , n : usize , at : :: std :: option :: Option < unsafe extern "C" fn (arg : * const :: std :: os :: raw :: c_void , i : usize) -> * const :: std :: os :: raw :: c_char > , arg : * const :: std :: os :: raw :: c_void) -> * const :: std :: os :: raw :: c_char > ,}
pub const KILN_RESIZE_NEAREST : kiln_resize = 0;
pub const KILN_RESIZE_BILINEAR : kiln_resize = 1;
pub const KILN_RESIZE_AREA : kiln_resize = 2;
pub const KILN_RESIZE_BICUBIC : kiln_resize = 3;
pub const KILN_RESIZE_BISLERP : kiln_resize = 4;
pub type kiln_resize = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_sampling {
    pub size : u32,
    pub n : usize,
    pub first : usize,
    pub sigma : * const f64,
    pub process : u32,
    pub options : * const :: std :: os :: raw :: c_void,
    pub x : * mut kiln_latent,
    pub seed : u64,
    pub self_ : * mut :: std :: os :: raw :: c_void,
    pub denoise : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_sampling , x : * const kiln_latent , sigma : f64 , out : * mut kiln_latent) -> kiln_status >,
    pub unconditional : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_sampling , out : * mut kiln_latent) -> kiln_status >,
    pub lincomb : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_sampling , out : * mut kiln_latent , n : usize , coefficient : * const f64 , x : * const * mut kiln_latent) >,
    pub norm : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_sampling , x : * const kiln_latent) -> f64 >,
    pub noise : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_sampling , sigma_from : f64 , sigma_to : f64 , out : * mut kiln_latent) -> kiln_status >,
    pub slot : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_sampling , name : * const :: std :: os :: raw :: c_char) -> * mut kiln_latent >,
    pub scalars : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_sampling , name : * const :: std :: os :: raw :: c_char , n : usize) -> * mut f64 >,
    pub step : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_sampling , i : usize , denoised : * const kiln_latent) -> kiln_status >,
    pub fail : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_sampling , status : kiln_status , fmt : * const :: std :: os :: raw :: c_char , ...) -> kiln_status >,
    pub percent_to_sigma : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_sampling , percent : f64) -> f64 >,
    pub error : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_sampling , a : * const kiln_latent , b : * const kiln_latent , before : * const kiln_latent , atol : f64 , rtol : f64) -> f64 >,
    pub clip : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_sampling , x : * mut kiln_latent , deviations : f64) >,
    pub resize : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_sampling , scale : f64 , method : u32) -> kiln_status >,
    pub latents : * const kiln_latents ,}
pub const KILN_SAMPLER_STOCHASTIC : _bindgen_ty_22 = 1;
pub const KILN_SAMPLER_EXTRA_STEP : _bindgen_ty_22 = 2;
pub const KILN_SAMPLER_FRESH_MASK_NOISE : _bindgen_ty_22 = 4;
pub const KILN_SAMPLER_UNCONDITIONAL : _bindgen_ty_22 = 8;
pub const KILN_SAMPLER_BROWNIAN : _bindgen_ty_22 = 16;
pub const KILN_SAMPLER_BROWNIAN_CUDA : _bindgen_ty_22 = 32;
pub const KILN_SAMPLER_CONTINUES_NOISE : _bindgen_ty_22 = 64;
pub const KILN_SAMPLER_RESIZES : _bindgen_ty_22 = 128;
pub type _bindgen_ty_22 = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_sampler {
    pub size : u32,
    pub flags : u32,
    pub name : * const :: std :: os :: raw :: c_char,
    pub doc : * const :: std :: os :: raw :: c_char,
    pub source : * const :: std :: os :: raw :: c_char,
    pub order : u32,
    pub evaluations : f64,
    pub param : * const kiln_param,
    pub n_param : u32,
    pub param_stride : u32,
    pub params_size : usize,
    pub run : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_sampling) -> kiln_status > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_schedule_input {
    pub size : u32,
    pub steps : usize,
    pub sigma : * const f64,
    pub n_sigma : usize,
    pub sigma_min : f64,
    pub sigma_max : f64,
    pub self_ : * const :: std :: os :: raw :: c_void,
    pub timestep : :: std :: option :: Option < unsafe extern "C" fn (self_ : * const :: std :: os :: raw :: c_void , sigma : f64) -> f64 >,
    pub sigma_at : :: std :: option :: Option < unsafe extern "C" fn (self_ : * const :: std :: os :: raw :: c_void , timestep : f64) -> f64 > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_schedule {
    pub size : u32,
    pub flags : u32,
    pub name : * const :: std :: os :: raw :: c_char,
    pub doc : * const :: std :: os :: raw :: c_char,
    pub source : * const :: std :: os :: raw :: c_char,
    pub make : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_schedule_input , out : * mut f64 , capacity : usize) -> usize > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_sampler_api {
    pub size : u32,
    pub register_sampler : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_sampler) -> kiln_status >,
    pub register_schedule : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_schedule) -> kiln_status >,
    pub sampler_count : :: std :: option :: Option < unsafe extern "C" fn () -> usize >,
    pub sampler_at : :: std :: option :: Option < unsafe extern "C" fn (i : usize) -> * const kiln_sampler >,
    pub sampler : :: std :: option :: Option < unsafe extern "C" fn (name : * const :: std :: os :: raw :: c_char) -> * const kiln_sampler >,
    pub schedule_count : :: std :: option :: Option < unsafe extern "C" fn () -> usize >,
    pub schedule_at : :: std :: option :: Option < unsafe extern "C" fn (i : usize) -> * const kiln_schedule >,
    pub schedule : :: std :: option :: Option < unsafe extern "C" fn (name : * const :: std :: os :: raw :: c_char) -> * const kiln_schedule >,
    pub plugin_of : :: std :: option :: Option < unsafe extern "C" fn (row : * const :: std :: os :: raw :: c_void) -> * const :: std :: os :: raw :: c_char > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_guider_step {
    pub size : u32,
    pub sampling : * const kiln_model_sampling,
    pub latents : * const kiln_latents,
    pub params : * const :: std :: os :: raw :: c_void,
    pub sigma : f64,
    pub x : * mut kiln_latent,
    pub guess : * const * mut kiln_latent,
    pub n_guess : u32,
    pub self_ : * mut :: std :: os :: raw :: c_void,
    pub guided : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_guider_step , positive : * mut kiln_latent , negative : * mut kiln_latent , cfg : f64 , out : * mut kiln_latent) -> kiln_status >,
    pub patch : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_guider_step , positive : * mut kiln_latent , negative : * mut kiln_latent , cfg : f64 , out : * mut kiln_latent) -> kiln_status > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_guider_model {
    pub name : * const :: std :: os :: raw :: c_char ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_guider_set {
    pub name : * const :: std :: os :: raw :: c_char,
    pub model : u32 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_guider {
    pub size : u32,
    pub flags : u32,
    pub name : * const :: std :: os :: raw :: c_char,
    pub doc : * const :: std :: os :: raw :: c_char,
    pub model : * const kiln_guider_model,
    pub n_model : u32,
    pub model_stride : u32,
    pub set : * const kiln_guider_set,
    pub n_set : u32,
    pub set_stride : u32,
    pub unconditional : i32,
    pub param : * const kiln_param,
    pub n_param : u32,
    pub param_stride : u32,
    pub params_size : usize,
    pub wants : :: std :: option :: Option < unsafe extern "C" fn (params : * const :: std :: os :: raw :: c_void , sigma : f64) -> u32 >,
    pub combine : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_guider_step , out : * mut kiln_latent) -> kiln_status > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_session { _unused : [u8 ; 0] ,}
pub const KILN_NOISE_AUTO : kiln_noise_source = 0;
pub const KILN_NOISE_CPU : kiln_noise_source = 1;
pub const KILN_NOISE_CUDA : kiln_noise_source = 2;
pub const KILN_NOISE_CUDA_ALL : kiln_noise_source = 3;
pub type kiln_noise_source = :: std :: os :: raw :: c_uint;
pub const KILN_NOISE_BLOCKS_MAX : _bindgen_ty_23 = 65536;
pub type _bindgen_ty_23 = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_noise {
    pub size : u32,
    pub source : i32,
    pub seed : u64,
    pub blocks : i64,
    pub none : i32,
    pub samples : * const kiln_value ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_sigma_options {
    pub size : u32,
    pub schedule : * const :: std :: os :: raw :: c_char,
    pub steps : i64,
    pub denoise : f64,
    pub drop_last_but_one : i32,
    pub at_most_steps : i32,
    pub latent : * const kiln_value ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_sampling_job {
    pub size : u32,
    pub guider : * const * mut kiln_value,
    pub n_guider : usize,
    pub latent : * const kiln_value,
    pub sigma : * const f64,
    pub n : usize,
    pub sampler : * const kiln_sampler,
    pub options : * const :: std :: os :: raw :: c_void,
    pub noise : * const kiln_noise,
    pub wants_denoised : i32,
    pub denoise : :: std :: option :: Option < unsafe extern "C" fn (self_ : * mut :: std :: os :: raw :: c_void , arg1 : * mut kiln_session , x : * mut kiln_latent , sigma : f64 , out : * mut kiln_latent) -> kiln_status >,
    pub self_ : * mut :: std :: os :: raw :: c_void ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_evaluation {
    pub size : u32,
    pub guider : u32,
    pub x : * mut kiln_latent,
    pub place : kiln_latent_place,
    pub sigma : f64 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_model_evaluation {
    pub size : u32,
    pub unconditional : u32,
    pub model : * const kiln_value,
    pub conditioning : * const kiln_value,
    pub x : * mut kiln_latent,
    pub place : kiln_latent_place,
    pub sigma : f64 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_sampling_api {
    pub size : u32,
    pub register_guider : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_guider) -> kiln_status >,
    pub guider_count : :: std :: option :: Option < unsafe extern "C" fn () -> usize >,
    pub guider_at : :: std :: option :: Option < unsafe extern "C" fn (i : usize) -> * const kiln_guider >,
    pub guider : :: std :: option :: Option < unsafe extern "C" fn (name : * const :: std :: os :: raw :: c_char) -> * const kiln_guider >,
    pub guider_new : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call , kind : * const :: std :: os :: raw :: c_char , parts : * mut kiln_value , out : * mut * mut kiln_value) -> kiln_status >,
    pub noise_new : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call , arg2 : * const kiln_noise , out : * mut * mut kiln_value) -> kiln_status >,
    pub noise_read : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call , noise : * const kiln_value , out : * mut kiln_noise) -> kiln_status >,
    pub find_sampler : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call , name : * const :: std :: os :: raw :: c_char , out : * mut * const kiln_sampler) -> kiln_status >,
    pub sampler_new : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call , arg2 : * const kiln_sampler , options : * mut kiln_value , out : * mut * mut kiln_value) -> kiln_status >,
    pub sampler_read : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call , arg2 : * const kiln_value , arg3 : * mut * const kiln_sampler , options : * mut * const :: std :: os :: raw :: c_void) -> kiln_status >,
    pub sigmas_read : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call , sigmas : * const kiln_value , model : * const kiln_value , sigma : * mut * mut f64 , n : * mut usize) -> kiln_status >,
    pub sigmas_new : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call , sigma : * const f64 , n : usize , out : * mut * mut kiln_value) -> kiln_status >,
    pub sigmas : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call , model : * const kiln_value , arg2 : * const kiln_sigma_options , sigma : * mut * mut f64 , n : * mut usize) -> kiln_status >,
    pub schedule_input : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call , model : * const kiln_value , steps : usize , out : * mut kiln_schedule_input) -> kiln_status >,
    pub percent_to_sigma : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call , model : * const kiln_value , percent : f64 , sigma : * mut f64) -> kiln_status >,
    pub add_noise : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call , model : * const kiln_value , arg2 : * const kiln_noise , sigma : f64 , latent : * const kiln_value , out : * mut * mut kiln_value) -> kiln_status >,
    pub open : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call , arg2 : * const kiln_sampling_job , out : * mut * mut kiln_session) -> kiln_status >,
    pub view : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_session) -> * const kiln_sampling >,
    pub run : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_session) -> kiln_status >,
    pub denoise : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_session , arg2 : * const kiln_evaluation , out : * mut kiln_latent) -> kiln_status >,
    pub finish : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_session , out : * mut * mut kiln_value , denoised : * mut * mut kiln_value) -> kiln_status >,
    pub close : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_session , status : kiln_status) >,
    pub evaluate : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_session , arg2 : * const kiln_model_evaluation , out : * mut kiln_latent) -> kiln_status >,
    pub random : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_call , seed : u64 , rank : u32 , dim : * const i64 , out : * mut f32) -> kiln_status > ,}
pub const KILN_PREDICT_EPS : kiln_prediction = 1;
pub const KILN_PREDICT_V : kiln_prediction = 2;
pub const KILN_PREDICT_X0 : kiln_prediction = 3;
pub const KILN_PREDICT_FLOW : kiln_prediction = 4;
pub const KILN_PREDICT_EDM : kiln_prediction = 5;
pub const KILN_PREDICT_LCM : kiln_prediction = 6;
pub const KILN_PREDICT_IMAGE : kiln_prediction = 7;
pub const KILN_PREDICT_RFLOW : kiln_prediction = 8;
pub const KILN_PREDICT_IMAGE_FLOW : kiln_prediction = 9;
pub type kiln_prediction = :: std :: os :: raw :: c_uint;
pub const KILN_TIME_INTERPOLATED : kiln_time = 0;
pub const KILN_TIME_NEAREST : kiln_time = 1;
pub const KILN_TIME_LOG : kiln_time = 2;
pub const KILN_TIME_ANGLE : kiln_time = 3;
pub const KILN_TIME_FLOW : kiln_time = 4;
pub const KILN_TIME_RATIO : kiln_time = 5;
pub type kiln_time = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_sampling_row {
    pub prediction : u32,
    pub time : u32,
    pub n_sigma : u32,
    pub sigma : * const f64,
    pub multiplier : f64,
    pub offset : f64,
    pub shift : f64,
    pub sigma_data : f64 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_standard_sampling {
    pub base : kiln_model_sampling,
    pub row : kiln_sampling_row,
    pub identity : [:: std :: os :: raw :: c_char ; 160usize] ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_stored_type {
    pub size : u32,
    pub revision : u32,
    pub type_ : * const :: std :: os :: raw :: c_char,
    pub doc : * const :: std :: os :: raw :: c_char,
    pub to_plain : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , object : * const kiln_value) -> * mut kiln_value >,
    pub from_plain : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , plain : * const kiln_value) -> * mut kiln_value > ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_store_api {
    pub size : u32,
    pub register_type : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_stored_type) -> kiln_status >,
    pub state_load : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx) -> * mut kiln_value >,
    pub state_due : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx) -> :: std :: os :: raw :: c_int >,
    pub state_save : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , state : * const kiln_value) -> kiln_status > ,}
pub const KILN_ENTRY_OPTIONAL : _bindgen_ty_24 = 1;
pub type _bindgen_ty_24 = :: std :: os :: raw :: c_uint;
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_value_entry {
    pub size : u32,
    pub flags : u32,
    pub key : * const :: std :: os :: raw :: c_char,
    pub doc : * const :: std :: os :: raw :: c_char,
    pub type_ : * const :: std :: os :: raw :: c_char,
    pub kinds : u32,
    pub dtypes : u32,
    pub rank_min : u32,
    pub rank_max : u32,
    pub last_min : i64,
    pub last_max : i64,
    pub item_kinds : u32,
    pub shape : * const :: std :: os :: raw :: c_char ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_value_type {
    pub size : u32,
    pub kind : u32,
    pub name : * const :: std :: os :: raw :: c_char,
    pub doc : * const :: std :: os :: raw :: c_char,
    pub dtypes : u32,
    pub rank_min : u32,
    pub rank_max : u32,
    pub last_min : i64,
    pub last_max : i64,
    pub shape : * const :: std :: os :: raw :: c_char,
    pub item : * const :: std :: os :: raw :: c_char,
    pub entry : * const kiln_value_entry,
    pub n_entry : u32,
    pub entry_stride : u32 ,}
# [repr (C)] # [derive (Copy , Clone)] pub struct kiln_types_api {
    pub size : u32,
    pub register_type : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * const kiln_value_type) -> kiln_status >,
    pub type_count : :: std :: option :: Option < unsafe extern "C" fn () -> usize >,
    pub type_at : :: std :: option :: Option < unsafe extern "C" fn (i : usize) -> * const kiln_value_type >,
    pub find : :: std :: option :: Option < unsafe extern "C" fn (name : * const :: std :: os :: raw :: c_char) -> * const kiln_value_type >,
    pub check : :: std :: option :: Option < unsafe extern "C" fn (arg1 : * mut kiln_ctx , arg2 : * const kiln_value , type_ : * const :: std :: os :: raw :: c_char) -> kiln_status > , }