/** What GitHub tells its program of an account, and of a model that the account may use. */
const USER = {
  login: 'agent',
  id: 1,
  access_type_sku: 'plus_monthly_subscriber_quota',
  copilot_plan: 'individual_pro',
  chat_enabled: true,
  is_mcp_enabled: true,
  endpoints: { api: 'https://api.individual.githubcopilot.com' },
}
const MODEL = {
  id: 'gpt-5-mini',
  object: 'model',
  name: 'GPT-5 mini',
  vendor: 'Azure OpenAI',
  version: 'gpt-5-mini',
  preview: false,
  model_picker_enabled: true,
  is_chat_default: true,
  policy: { state: 'enabled', terms: '' },
  supported_endpoints: ['/chat/completions'],
  capabilities: {
    family: 'gpt-5-mini',
    type: 'chat',
    object: 'model_capabilities',
    tokenizer: 'o200k_base',
    limits: { max_context_window_tokens: 264_000, max_prompt_tokens: 128_000, max_output_tokens: 64_000 },
    supports: { streaming: true, tool_calls: true, parallel_tool_calls: true },
  },
}

/** By path. */
export const ACCOUNTS: Readonly<Record<string, unknown>> = {
  '/copilot_internal/user': USER,
  '/user': USER,
  '/models': { object: 'list', data: [MODEL] },
}
