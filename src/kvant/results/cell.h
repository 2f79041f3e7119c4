// A cell: one arm on one span with one context, and what was measured there. Plain data; the store and the CSV file
// walk its fields through VisitCellFields, so that a new field is added in one place.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace kvant {

// What identifies a cell inside an experiment. `arm` is a label for people and not part of the identity: renaming an
// arm keeps its cells.
struct CellKey {
  std::string arm;
  std::string policy;        // policy text as in the spec, e.g. "k=q4_0 v=f32"
  uint64_t span_end = 0;     // tokens; the span is [span_end - span_length, span_end)
  uint64_t span_length = 0;  // tokens scored
  uint64_t context = 0;      // tokens fed before the span
  std::string mode = "prefill";
  uint64_t chunk = 0;  // tokens of one prefill chunk
};

// Everything but the label is equal.
bool SameCell(const CellKey& a, const CellKey& b);

// "k4 (k=q4_0 v=f32), 1024 tokens before the span that ends at 2304"
std::string Describe(const CellKey& key);

// Per scored token, in text order. The last scored token has no target inside the span, so the losses (in nats) are one
// shorter than the other two.
struct TokenValues {
  std::vector<double> kl;       // KL(reference || arm)
  std::vector<double> nll;      // of the arm, for the token that follows
  std::vector<double> ref_nll;  // of the reference
  std::vector<uint8_t> agree;   // 1 where both have the same most likely token
};

enum class CellStatus : uint8_t { kOk, kFailed };

struct CellRecord {
  CellKey key;
  CellStatus status = CellStatus::kOk;
  std::string reason;  // why it failed: one sentence; empty for kOk

  // Means over the scored tokens; NaN until FillFromTokens.
  uint64_t scored = 0;
  double mean_kl = std::numeric_limits<double>::quiet_NaN();  // nats
  double p99_kl = std::numeric_limits<double>::quiet_NaN();   // nats, over tokens, linear interpolation
  double top1 = std::numeric_limits<double>::quiet_NaN();     // share of tokens that agree, 0..1
  double nll = std::numeric_limits<double>::quiet_NaN();
  double ppl = std::numeric_limits<double>::quiet_NaN();  // exp(nll)
  double ref_nll = std::numeric_limits<double>::quiet_NaN();
  double ref_ppl = std::numeric_limits<double>::quiet_NaN();

  // Of the arm alone: prefill of context and span; the shared reference is not in it.
  double seconds = 0;
  double tokens_per_second = 0;

  // What the cache holds at the end of the cell: stored bytes with scales and padding, and the values they stand for.
  uint64_t bytes_k = 0;
  uint64_t bytes_v = 0;
  uint64_t values_k = 0;
  uint64_t values_v = 0;
  // Token rows kept exact (window, sinks) and token rows that went through the policy's codec (case 41).
  uint64_t rows_exact = 0;
  uint64_t rows_quantized = 0;
  uint64_t saturated = 0;  // values that a codec had to clamp
  std::string cache_hash;  // hash of all stored bytes; two arms with one hash stored the same thing (case 40)

  // Provenance.
  std::string kvant_version;
  std::string cpu_target;
  uint64_t threads = 0;
  std::string date;  // ISO 8601, UTC

  TokenValues tokens;

  // Bits per value, always from stored bytes; NaN when nothing was stored.
  double bpv_k() const;
  double bpv_v() const;
};

// Sets scored and the seven means from record->tokens. A token whose KL or loss is not finite makes the cell kFailed
// with a reason that counts such tokens.
void FillFromTokens(CellRecord* record);

// Calls visit(name, field) for every stored field except the status and the per-token values, in the order of the
// database columns and the CSV file. Names carry the unit. Fields are std::string, uint64_t or double.
template <typename Record, typename Visit>
void VisitCellFields(Record& record, Visit&& visit) {
  visit("arm", record.key.arm);
  visit("policy", record.key.policy);
  visit("span_end_tokens", record.key.span_end);
  visit("span_length_tokens", record.key.span_length);
  visit("context_tokens", record.key.context);
  visit("mode", record.key.mode);
  visit("chunk_tokens", record.key.chunk);
  visit("reason", record.reason);
  visit("scored_tokens", record.scored);
  visit("mean_kl_nats", record.mean_kl);
  visit("p99_kl_nats", record.p99_kl);
  visit("top1_share", record.top1);
  visit("nll_nats", record.nll);
  visit("ppl", record.ppl);
  visit("ref_nll_nats", record.ref_nll);
  visit("ref_ppl", record.ref_ppl);
  visit("seconds", record.seconds);
  visit("tokens_per_second", record.tokens_per_second);
  visit("bytes_k", record.bytes_k);
  visit("bytes_v", record.bytes_v);
  visit("values_k", record.values_k);
  visit("values_v", record.values_v);
  visit("rows_exact", record.rows_exact);
  visit("rows_quantized", record.rows_quantized);
  visit("saturated_values", record.saturated);
  visit("cache_hash", record.cache_hash);
  visit("kvant_version", record.kvant_version);
  visit("cpu_target", record.cpu_target);
  visit("threads", record.threads);
  visit("date_utc", record.date);
}

}  // namespace kvant
