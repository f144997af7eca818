// Functions that libibverbs has and weft's devices do not offer: the error that says so. For
// objects of real devices they do what they always did. Those that the installed headers do not
// know yet are declared here, with the types that they have in newer ones.
#include "shim/errors.h"
#include "shim/objects.h"
#include "shim/real.h"

using weft::shim::is_ours;
using weft::shim::refuse;

extern "C" {

struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_mr_init_attr;
struct ibv_buf;
struct ibv_comp_cntr;
struct ibv_comp_cntr_init_attr;
struct ibv_comp_cntr_caps;
ibv_dmah* ibv_alloc_dmah(ibv_context* context, ibv_dmah_init_attr* attr);
ibv_mr* ibv_reg_mr_ex(ibv_pd* pd, ibv_mr_init_attr* attr);
void* ibv_alloc_buf(ibv_pd* pd, std::size_t size, ibv_buf** buf);
ibv_mr* ibv_reg_buf_mr(ibv_pd* pd, ibv_buf* buf, void* address, std::size_t length,
                       std::uint64_t iova, unsigned access);

int ibv_dm_export_dmabuf_fd(ibv_dm* dm);
ibv_comp_cntr* ibv_create_comp_cntr(ibv_context* context, ibv_comp_cntr_init_attr* attr);
int _ibv_query_comp_cntr_caps(ibv_context* context, ibv_comp_cntr_caps* caps, std::size_t size);

int ibv_dm_export_dmabuf_fd(ibv_dm* dm) {
  if (!is_ours(dm)) WEFT_PASS_ON(ibv_dm_export_dmabuf_fd, -1, dm);
  errno = EOPNOTSUPP;
  return -1;
}

ibv_comp_cntr* ibv_create_comp_cntr(ibv_context* context, ibv_comp_cntr_init_attr* attr) {
  if (!is_ours(context)) WEFT_PASS_ON(ibv_create_comp_cntr, refuse(EOPNOTSUPP), context, attr);
  return refuse(EOPNOTSUPP);
}

int _ibv_query_comp_cntr_caps(ibv_context* context, ibv_comp_cntr_caps* caps, std::size_t size) {
  if (!is_ours(context)) WEFT_PASS_ON(_ibv_query_comp_cntr_caps, EOPNOTSUPP, context, caps, size);
  return EOPNOTSUPP;
}

ibv_dmah* ibv_alloc_dmah(ibv_context* context, ibv_dmah_init_attr* attr) {
  if (!is_ours(context)) WEFT_PASS_ON(ibv_alloc_dmah, refuse(EOPNOTSUPP), context, attr);
  return refuse(EOPNOTSUPP);
}

ibv_mr* ibv_reg_mr_ex(ibv_pd* pd, ibv_mr_init_attr* attr) {
  if (!is_ours(pd)) WEFT_PASS_ON(ibv_reg_mr_ex, refuse(EOPNOTSUPP), pd, attr);
  return refuse(EOPNOTSUPP);
}

void* ibv_alloc_buf(ibv_pd* pd, std::size_t size, ibv_buf** buf) {
  if (!is_ours(pd)) WEFT_PASS_ON(ibv_alloc_buf, refuse(EOPNOTSUPP), pd, size, buf);
  return refuse(EOPNOTSUPP);
}

ibv_mr* ibv_reg_buf_mr(ibv_pd* pd, ibv_buf* buf, void* address, std::size_t length,
                       std::uint64_t iova, unsigned access) {
  if (!is_ours(pd)) {
    WEFT_PASS_ON(ibv_reg_buf_mr, refuse(EOPNOTSUPP), pd, buf, address, length, iova, access);
  }
  return refuse(EOPNOTSUPP);
}

}  // extern "C"
