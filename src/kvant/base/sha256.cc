#include "kvant/base/sha256.h"

#include <array>
#include <cstdio>
#include <vector>

#include <openssl/evp.h>

#include "kvant/base/check.h"

namespace kvant {

struct Sha256::Impl {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~Impl() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {
  KVANT_CHECK(impl_->context != nullptr && EVP_DigestInit_ex(impl_->context, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::Update(std::span<const std::byte> bytes) {
  KVANT_CHECK(EVP_DigestUpdate(impl_->context, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::Hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  KVANT_CHECK(EVP_DigestFinal_ex(impl_->context, digest.data(), &length) == 1);
  std::string hex;
  for (unsigned int index = 0; index < length; ++index) hex += fmt::format("{:02x}", digest[index]);
  return hex;
}

std::string Sha256Hex(std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.Update(bytes);
  return sha.Hex();
}

Result<std::string> Sha256OfFile(const std::string& path) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) return Fail("{}: cannot be opened for reading", path);
  Sha256 sha;
  std::vector<std::byte> buffer(1 << 20);
  while (const size_t got = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    sha.Update(std::span(buffer.data(), got));
  }
  if (std::ferror(file.get()) != 0) return Fail("{}: reading failed", path);
  return sha.Hex();
}

}  // namespace kvant
