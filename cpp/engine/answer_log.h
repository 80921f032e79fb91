// The last requests that have ended, however, and had a token.
#pragma once

#include <cstdint>

#include "numbered_log.h"

namespace orin {

struct AnswerRecord {
    int64_t number;  // from 1
    double ended_ms;
    double ttft_ms;
    double tpot_ms;  // 0 with one token
    int64_t n_prompt_tokens;
    int64_t n_tokens;  // one that ended it included
};

using AnswerLog = NumberedLog<AnswerRecord, 16>;

}  // namespace orin
