// Python's view of the radix tree and the block manager. hygon_backend.cache wraps it: what is documented
// there is not documented here again.
#include "bindings_cache.h"

#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <string>

#include "bindings_int64_span.h"
#include "cache/block_manager.h"
#include "cache/errors.h"
#include "cache/radix_tree.h"

namespace py = pybind11;

namespace hygon_backend {
namespace {

using cache::BlockManager;
using cache::NodeHandle;
using cache::RadixTree;

// Raised as the classes of hygon_backend.errors and hygon_backend.cache.errors, looked up when first needed.
void RaiseAs(const char* module, const char* name, const std::exception& error) {
  const py::object type = py::module_::import(module).attr(name);
  PyErr_SetString(type.ptr(), error.what());
}

void TranslateErrors(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const cache::InvalidArgument& error) {
    RaiseAs("hygon_backend.errors", "InvalidArgumentError", error);
  } catch (const cache::UnknownId& error) {
    RaiseAs("hygon_backend.cache.errors", "UnknownIdError", error);
  } catch (const cache::IllegalState& error) {
    RaiseAs("hygon_backend.cache.errors", "IllegalStateError", error);
  } catch (const cache::OutOfBlocks& error) {
    RaiseAs("hygon_backend.cache.errors", "OutOfBlocksError", error);
  }
}

void BindRadixTree(py::module_& module) {
  py::enum_<cache::EvictionPolicy>(module, "EvictionPolicy", py::module_local())
      .value("lru", cache::EvictionPolicy::kLru)
      .value("lfu", cache::EvictionPolicy::kLfu)
      .value("fifo", cache::EvictionPolicy::kFifo)
      .value("priority", cache::EvictionPolicy::kPriority);
  py::class_<cache::NodeInfo>(module, "NodeInfo", py::module_local())
      .def_readonly("node", &cache::NodeInfo::node)
      .def_readonly("parent", &cache::NodeInfo::parent)
      .def_readonly("begin", &cache::NodeInfo::begin)
      .def_readonly("tokens", &cache::NodeInfo::tokens)
      .def_readonly("slots", &cache::NodeInfo::slots)
      .def_readonly("lock_ref", &cache::NodeInfo::lock_ref)
      .def_readonly("num_children", &cache::NodeInfo::num_children)
      .def_readonly("hit_count", &cache::NodeInfo::hit_count)
      .def_readonly("priority", &cache::NodeInfo::priority);
  py::class_<RadixTree>(module, "RadixTree", py::module_local())
      .def(py::init<std::int64_t, std::int64_t, cache::EvictionPolicy>(), py::arg("num_slots"),
           py::arg("page_size"), py::arg("policy"))
      .def("match_prefix",
           [](RadixTree& tree, py::handle tokens, const std::string& name_space) {
             const LentInt64 lent("tokens", tokens);
             const cache::MatchedPrefix match = tree.MatchPrefix(lent.span(), name_space);
             return py::make_tuple(match.length, match.node);
           })
      .def("match_length",
           [](const RadixTree& tree, py::handle tokens, const std::string& name_space) {
             const LentInt64 lent("tokens", tokens);
             return tree.MatchLength(lent.span(), name_space);
           })
      .def("depth", &RadixTree::Depth)
      // `address` is where `depth(node)` 64-bit integers are to be written.
      .def("copy_slots",
           [](const RadixTree& tree, NodeHandle node, std::uintptr_t address) {
             tree.CopySlots(node, reinterpret_cast<std::int64_t*>(address));
           })
      .def("insert",
           [](RadixTree& tree, py::handle tokens, py::handle slots, const std::string& name_space,
              std::int64_t priority) {
             const LentInt64 lent_tokens("tokens", tokens);
             const LentInt64 lent_slots("slots", slots);
             const cache::Insertion result =
                 tree.Insert(lent_tokens.span(), lent_slots.span(), name_space, priority);
             return py::make_tuple(result.matched_length, result.node, result.unused_pages);
           })
      .def("inc_lock_ref", &RadixTree::IncLockRef)
      .def("dec_lock_ref", &RadixTree::DecLockRef)
      .def("evict",
           [](RadixTree& tree, std::int64_t num_tokens) {
             const cache::Eviction result = tree.Evict(num_tokens);
             return py::make_tuple(result.num_tokens, result.pages);
           })
      .def("reset", &RadixTree::Reset)
      .def("nodes", &RadixTree::Nodes)
      .def("info", &RadixTree::Info)
      .def_property_readonly("page_size", &RadixTree::page_size)
      .def_property_readonly("num_slots", &RadixTree::num_slots)
      .def_property_readonly("num_nodes", &RadixTree::num_nodes)
      .def("total_size", &RadixTree::total_size)
      .def("protected_size", &RadixTree::protected_size)
      .def("evictable_size", &RadixTree::evictable_size)
      .def("num_pages", &RadixTree::num_pages)
      .def("protected_pages", &RadixTree::protected_pages)
      .def("evictable_pages", &RadixTree::evictable_pages);
}

void BindBlockManager(py::module_& module) {
  py::class_<BlockManager>(module, "BlockManager", py::module_local())
      .def(py::init([](std::int64_t num_blocks, std::int64_t block_size,
                       const std::optional<cache::HashKey>& hash_key) {
             return BlockManager(num_blocks, block_size, hash_key ? *hash_key : cache::RandomHashKey());
           }),
           py::arg("num_blocks"), py::arg("block_size"), py::arg("hash_key"))
      .def("allocate",
           [](BlockManager& manager, std::int64_t seq_id, py::handle tokens) {
             return manager.Allocate(seq_id, LentInt64("tokens", tokens).span());
           })
      .def("find_prefix",
           [](const BlockManager& manager, py::handle tokens) {
             return manager.FindPrefix(LentInt64("tokens", tokens).span());
           })
      .def("append_slots",
           [](BlockManager& manager, std::int64_t seq_id, py::handle tokens) {
             return manager.AppendSlots(seq_id, LentInt64("tokens", tokens).span());
           })
      .def("can_allocate", &BlockManager::CanAllocate)
      .def("fork", &BlockManager::Fork)
      .def("mark_computed", &BlockManager::MarkComputed)
      .def("free", &BlockManager::Free)
      .def("block_table", &BlockManager::BlockTable)
      .def("num_tokens", &BlockManager::NumTokens)
      .def("ref_count", &BlockManager::RefCount)
      .def_property_readonly("num_blocks", &BlockManager::num_blocks)
      .def_property_readonly("block_size", &BlockManager::block_size)
      .def("num_free_blocks", &BlockManager::num_free_blocks)
      .def("num_sequences", &BlockManager::num_sequences);
}

}  // namespace

void BindCache(py::module_& module) {
  py::register_local_exception_translator(&TranslateErrors);
  BindRadixTree(module);
  BindBlockManager(module);
}

}  // namespace hygon_backend
