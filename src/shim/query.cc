// What a device, its port and its tables say of themselves. Only what works is said.
#include <net/if.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "base/version.h"
#include "files/gid_table.h"
#include "shim/address.h"
#include "shim/errors.h"
#include "shim/objects.h"
#include "shim/query.h"
#include "shim/queue_pair.h"
#include "shim/real.h"
#include "verbs/limits.h"

namespace weft::shim {
namespace {

/// A locally administered OUI: nobody else's.
constexpr std::uint32_t kVendor = 0x02'7765;
constexpr int kPKeys = 1;
constexpr std::uint32_t kManyObjects = 1u << 20;
constexpr int kMaxGroups = 4096;
/// Speeds as codes: 4 lanes of HDR, which is about what memory gives.
constexpr std::uint8_t kWidth4x = 2;
constexpr std::uint8_t kSpeedHdr = 64;
constexpr std::uint8_t kPhysLinkUp = 5;
/// The kernel's IB_UVERBS_DEVICE_ATOMIC_WRITE, which this version's headers do not name.
constexpr std::uint64_t kAtomicWrites = std::uint64_t{1} << 40;
constexpr std::uint32_t kCmSupport = 1u << 16;

bool is_infiniband(Context& context) {
  return context.weft().link_layer == files::LinkLayer::kInfiniBand;
}

std::uint64_t odp_operations() {
  return IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
         IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;
}

}  // namespace

void describe_device(Context& context, ibv_device_attr& attr) {
  const verbs::DeviceInfo& info = context.device.info();
  attr = {};
  std::snprintf(attr.fw_ver, sizeof attr.fw_ver, "%s", base::version());
  attr.node_guid = htobe64(context.weft().guid);
  attr.sys_image_guid = attr.node_guid;
  attr.vendor_id = kVendor;
  attr.vendor_part_id = 1;
  attr.hw_ver = 1;
  attr.max_mr_size = ~std::uint64_t{0};
  attr.page_size_cap = 0xFFFF'F000;
  attr.max_qp = static_cast<int>(info.max_queue_pairs);
  attr.max_qp_wr = static_cast<int>(info.max_queue_depth);
  attr.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_RC_RNR_NAK_GEN |
                          IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_MEM_WINDOW |
                          IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS |
                          IBV_DEVICE_XRC;
  attr.max_sge = static_cast<int>(info.max_sge);
  attr.max_sge_rd = attr.max_sge;
  attr.max_cq = kManyObjects;
  attr.max_cqe = static_cast<int>(info.max_completions);
  attr.max_mr = 1 << 23;
  attr.max_pd = kManyObjects;
  attr.max_qp_rd_atom = static_cast<int>(info.max_rd_atomic);
  attr.max_qp_init_rd_atom = attr.max_qp_rd_atom;
  attr.max_res_rd_atom = attr.max_qp_rd_atom * 1024;
  // They are the processor's own instructions, which IBV_ATOMIC_GLOB would say; UCX asks for this.
  attr.atomic_cap = IBV_ATOMIC_HCA;
  attr.max_mw = 1 << 23;
  attr.max_ah = kManyObjects;
  // Reliable datagrams: for programs in C++ (weft/verbs.h), as there is no type of queue pair here.
  attr.max_ee = static_cast<int>(info.max_contexts);
  attr.max_rdd = 1;
  attr.max_ee_rd_atom = attr.max_ee_init_rd_atom = attr.max_qp_rd_atom;
  attr.max_mcast_grp = kMaxGroups;
  attr.max_mcast_qp_attach = kMaxGroups;
  attr.max_total_mcast_qp_attach = kMaxGroups;
  attr.max_srq = kManyObjects;
  attr.max_srq_wr = static_cast<int>(info.max_queue_depth);
  attr.max_srq_sge = static_cast<int>(info.max_sge);
  attr.max_pkeys = kPKeys;
  attr.local_ca_ack_delay = 0;
  attr.phys_port_cnt = 1;
}

int query_device_ex(ibv_context* shown, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, std::size_t size) {
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  if (size < offsetof(ibv_device_attr_ex, comp_mask) + sizeof attr->comp_mask) return EINVAL;
  ibv_device_attr_ex all{};
  describe_device(Context::of(shown), all.orig_attr);
  all.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  all.odp_caps.per_transport_caps.rc_odp_caps = static_cast<std::uint32_t>(odp_operations());
  all.odp_caps.per_transport_caps.uc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
                                                IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_SRQ_RECV;
  all.odp_caps.per_transport_caps.ud_odp_caps =
      IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
  all.xrc_odp_caps = static_cast<std::uint32_t>(odp_operations());
  // Completions carry the time at which they were polled, in nanoseconds.
  all.completion_timestamp_mask = ~std::uint64_t{0};
  all.hca_core_clock = 1'000'000;  // kHz
  all.max_dm_size = kDeviceMemoryBytes;
  all.device_cap_flags_ex = all.orig_attr.device_cap_flags | kAtomicWrites;
  all.phys_port_cnt_ex = 1;
  std::memset(attr, 0, size);
  std::memcpy(attr, &all, std::min(size, sizeof all));
  return 0;
}

int query_rt_values(ibv_context*, ibv_values_ex* values) {
  if ((values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) == 0) return EINVAL;
  clock_gettime(CLOCK_MONOTONIC, &values->raw_clock);
  values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  return 0;
}

int query_port(ibv_context* shown, std::uint8_t port, ibv_port_attr* attr, std::size_t size) {
  if (port != kPort) return EINVAL;
  Context& context = Context::of(shown);
  ibv_port_attr all{};
  all.state = IBV_PORT_ACTIVE;
  all.max_mtu = IBV_MTU_4096;
  all.active_mtu = shown_mtu(context.controller().max_mtu(kPort));
  all.gid_tbl_len = static_cast<int>(files::kGidTableLength);
  all.port_cap_flags = kCmSupport;
  all.max_msg_sz = 1u << 31;
  all.pkey_tbl_len = kPKeys;
  all.lid = context.weft().lid.value;
  all.sm_lid = is_infiniband(context) ? 1 : 0;
  all.max_vl_num = 1;
  all.subnet_timeout = is_infiniband(context) ? 18 : 0;
  all.active_width = kWidth4x;
  all.active_speed = kSpeedHdr;
  all.phys_state = kPhysLinkUp;
  all.link_layer = is_infiniband(context) ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
  all.flags = is_infiniband(context) ? 0 : IBV_QPF_GRH_REQUIRED;
  std::memset(attr, 0, size);
  std::memcpy(attr, &all, std::min(size, sizeof all));
  return 0;
}

namespace {

std::uint32_t type_of(files::GidType type) {
  switch (type) {
    case files::GidType::kInfiniBand:
      return IBV_GID_TYPE_IB;
    case files::GidType::kRoceV1:
      return IBV_GID_TYPE_ROCE_V1;
    case files::GidType::kRoceV2:
      return IBV_GID_TYPE_ROCE_V2;
  }
  return IBV_GID_TYPE_IB;
}

/// ENODATA: the index is empty. EINVAL: there is no such index, or port.
int find_gid(Context& context, std::uint32_t port, std::uint32_t index, ibv_gid_entry& entry) {
  if (port != kPort || index >= files::kGidTableLength) {
    if (explaining()) {
      explain_call("ibv_query_gid", context.weft().name,
                   no_such_gid(context.weft(), "index", index).value());
    }
    return EINVAL;
  }
  const auto found = files::gid_entry(context.weft(), index);
  if (!found) return ENODATA;
  entry.gid = gid_of(found->gid);
  entry.gid_index = index;
  entry.port_num = kPort;
  entry.gid_type = type_of(found->type);
  entry.ndev_ifindex =
      is_infiniband(context) ? 0 : if_nametoindex(context.weft().interface.c_str());
  return 0;
}

}  // namespace
}  // namespace weft::shim

using weft::shim::Context;
using weft::shim::is_ours;

extern "C" {

int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
  if (!is_ours(context)) WEFT_PASS_ON(ibv_query_device, ENOSYS, context, attr);
  weft::shim::describe_device(Context::of(context), *attr);
  return 0;
}

int ibv_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attr) {
  if (!is_ours(context)) WEFT_PASS_ON(ibv_query_port, ENOSYS, context, port, attr);
  // What the structure had before it grew.
  return weft::shim::query_port(context, port, reinterpret_cast<ibv_port_attr*>(attr),
                                offsetof(ibv_port_attr, port_cap_flags2));
}

// An index that is empty is a GID of zeros, of RoCE v1, to the two old functions.
int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
  if (!is_ours(context)) WEFT_PASS_ON(ibv_query_gid, -1, context, port, index, gid);
  ibv_gid_entry entry{};
  const int error =
      weft::shim::find_gid(Context::of(context), port, static_cast<std::uint32_t>(index), entry);
  if (error == EINVAL) {
    errno = error;
    return -1;
  }
  *gid = entry.gid;
  return 0;
}

int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                      ibv_gid_entry* entry, std::uint32_t flags, std::size_t size) {
  if (!is_ours(context)) {
    WEFT_PASS_ON(_ibv_query_gid_ex, ENOSYS, context, port, index, entry, flags, size);
  }
  if (flags != 0) return EINVAL;
  ibv_gid_entry all{};
  const int error = weft::shim::find_gid(Context::of(context), port, index, all);
  if (error != 0) return error;
  std::memset(entry, 0, size);
  std::memcpy(entry, &all, std::min(size, sizeof all));
  return 0;
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t most,
                             std::uint32_t flags, std::size_t size) {
  if (!is_ours(context)) {
    WEFT_PASS_ON(_ibv_query_gid_table, -ENOSYS, context, entries, most, flags, size);
  }
  if (flags != 0) return -EINVAL;
  const std::uint32_t count = weft::files::gid_count(Context::of(context).weft());
  if (size == 0 || most < count) return -EINVAL;
  for (std::uint32_t i = 0; i < count; ++i) {
    ibv_gid_entry all{};
    weft::shim::find_gid(Context::of(context), weft::shim::kPort, i, all);
    std::byte* const to = reinterpret_cast<std::byte*>(entries) + i * size;
    std::memset(to, 0, size);
    std::memcpy(to, &all, std::min(size, sizeof all));
  }
  return count;
}

int ibv_query_gid_type(ibv_context* context, std::uint8_t port, unsigned int index, int* type) {
  if (!is_ours(context)) WEFT_PASS_ON(ibv_query_gid_type, -1, context, port, index, type);
  ibv_gid_entry entry{};
  const int error = weft::shim::find_gid(Context::of(context), port, index, entry);
  if (error == EINVAL) {
    errno = error;
    return -1;
  }
  *type = error == 0 && entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? 1 : 0;  // as sysfs counts them
  return 0;
}

int ibv_query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* pkey) {
  if (!is_ours(context)) WEFT_PASS_ON(ibv_query_pkey, -1, context, port, index, pkey);
  if (port != weft::shim::kPort || index < 0 || index >= weft::shim::kPKeys) {
    errno = EINVAL;
    return -1;
  }
  *pkey = htobe16(weft::kDefaultPKey.value);
  return 0;
}

int ibv_get_pkey_index(ibv_context* context, std::uint8_t port, __be16 pkey) {
  if (!is_ours(context)) WEFT_PASS_ON(ibv_get_pkey_index, -1, context, port, pkey);
  return port == weft::shim::kPort && (be16toh(pkey) & 0x7FFF) == 0x7FFF ? 0 : -1;
}

int ibv_query_port_speed(ibv_context* context, std::uint32_t port, std::uint64_t* speed) {
  if (!is_ours(context)) WEFT_PASS_ON(ibv_query_port_speed, ENOSYS, context, port, speed);
  if (port != weft::shim::kPort) return EINVAL;
  *speed = 2000;  // of 100 Mb/s: four lanes of HDR
  return 0;
}

}  // extern "C"
