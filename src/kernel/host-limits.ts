/** The bounds of the controller and of what it speaks with; part of `LIMITS`. */
export const HOST_LIMITS = {
  /** The policy that a workspace brings itself, which its agent may write, and the rules in it. */
  workspacePolicyBytesMax: 256 * 1024,
  restrictedRulesMax: 1_000,
  /** What policies may ask for a session: patterns of hidden files, memory, processors, processes. */
  hiddenPatternsMax: 256,
  sessionMemoryBytesMin: 64 * 1024 ** 2,
  sessionMemoryBytesMax: 4_096 * 1024 ** 3,
  sessionCpusMin: 0.1,
  sessionCpusMax: 1_024,
  sessionPidsMin: 16,
  sessionPidsMax: 1_000_000,
  /** The largest user id: the one above it means "no change" to the kernel (chown(2)). */
  userIdMax: 4_294_967_294,
  imageNameCharsMax: 512,
  /** What an agent's program waits for an MCP server of its session: until it answers at all, and for one call. */
  harnessToolStartMs: 30_000,
  harnessToolMs: 120_000,
  /** Workspaces whose own policy the operator has trusted, and the file that says so. */
  trustedWorkspacesMax: 1_000,
  trustFileBytesMax: 1024 * 1024,
  /** While another command changes that list: `trust_invalid`. */
  trustWaitMs: 5_000,
  /** The longest `ttl` of a secret. */
  secretTtlMaxMs: 3_600_000,
  /** Secrets that one session obtains at the same time: more wait. Each may be a process. */
  secretResolutionsMax: 8,
  /** Names of secrets that a provider lists, and folders that it looks into for them. */
  secretsListedMax: 10_000,
  /** One request to HashiCorp Vault, and its answer: a secret there has 1 MiB at most. */
  vaultRequestMs: 10_000,
  vaultAnswerBytesMax: 2 * 1024 * 1024,
  /** A lease as it is sent; its short form fits where RFC 1929 has 255 bytes. Longer ones are not looked at: `lease_invalid`. */
  leaseCharsMax: 8_192,
  leaseShortCharsMax: 255,
  /** One claim of a lease, and how many methods it may name. */
  leaseTextCharsMax: 256,
  leaseMethodsMax: 16,
  /** The file of the lease key. */
  leaseKeyFileBytesMax: 16 * 1024,
  /** Keys before the current one whose leases stay valid while their sessions live: older ones are refused. */
  leaseFormerKeysMax: 8,
  /** What the operator's commands send to the daemon in one call. */
  operatorBodyBytesMax: 1024 * 1024,
  /** Lines of a container's log that are asked for at once. */
  logTailLinesMax: 1_000_000,
  /** One call to the daemon's API, and what it answers. */
  daemonRequestMs: 30_000,
  daemonAnswerBytesMax: 16 * 1024 * 1024,
  /** Secrets in one vault: `vault_full`. */
  vaultSecretsMax: 1_000,
  /** Another process that holds the home is waited for so long: `daemon_running`. */
  homeBusyMs: 2_000,
  /** Another process that writes the vault is waited for so long: `vault_busy`. */
  vaultBusyMs: 5_000,
  /** Tags of one secret. */
  secretTagsMax: 32,
  /** A file with a key or a passphrase. */
  keyFileBytesMax: 4 * 1024,
  /** A passphrase that is chosen; what opens something may be shorter. */
  passphraseCharsMin: 12,
  passphraseCharsMax: 1_024,
  /** What a guess at a passphrase or password that is chosen now takes of memory, and a third of a second. */
  scryptBytes: 128 * 1024 * 1024,
  /** What a vault may ask of scrypt, as N: 512 MiB of memory. Its record could be anybody's. */
  scryptCostMax: 2 ** 19,
  /** What an exported file may ask of PBKDF2: two seconds or so. */
  pbkdf2RoundsMax: 4_000_000,
  /** An exported file. */
  sealedBytesMax: 192 * 1024 * 1024,
  /** The keyring of the operating system may ask the operator to unlock it. */
  keyringMs: 60_000,
  /** The operator at a prompt, and whoever writes to a pipe in their place. */
  operatorInputMs: 600_000,
  /** Without its controller a sidecar keeps its secrets so long (it is told when it connects), at most the second figure. */
  controllerGraceMs: 600_000,
  controllerGraceMaxMs: 24 * 3_600_000,
  /** From the start of a sidecar to its secrets: `control_unreachable`. Also how long its controller waits for it: `sidecar_not_ready`. */
  controlStartMs: 30_000,
  sidecarReadyMs: 30_000,
  /** One frame to the controller, one to a sidecar (all values of a session), and one from who has not proven who it is. */
  controlFrameBytesMax: 1024 * 1024,
  controlPushBytesMax: 8 * 1024 * 1024,
  controlHelloBytesMax: 16 * 1024,
  /** Nesting of the JSON in a frame. Real ones have three levels. */
  controlDepthMax: 16,
  /** Frames of one peer in the long run and at once, and their bytes: beyond, it is read no further for a while. */
  controlFramesPerSecondMax: 100,
  controlBurstFramesMax: 400,
  controlBytesPerSecondMax: 8 * 1024 * 1024,
  /** Requests of one side that are not answered yet: a peer with more is cut off. */
  controlRequestsMax: 256,
  /** What a peer has not read yet: one that leaves more is cut off. */
  controlUnsentBytesMax: 16 * 1024 * 1024,
  /** From a connection to its proof; from the first byte of a frame to its last; from a request to its answer. */
  controlHelloMs: 5_000,
  controlFrameMs: 10_000,
  controlAnswerMs: 20_000,
  /** A side that has nothing to say says so this often, and one that is silent for longer than the second figure is gone. */
  controlBeatMs: 2_000,
  controlSilenceMs: 10_000,
  /** A sidecar that lost its controller tries again after times that double from the first to the second. */
  controlBackoffMinMs: 200,
  controlBackoffMaxMs: 10_000,
  /** Over the engine's streams it is the controller that comes again, so long after it lost a gate that runs. */
  controlReattachMs: 1_000,
  /** Connections of one session's socket without a proof, and how many are taken in a second: more are closed at once. */
  controlStrangersMax: 4,
  controlConnectionsPerSecondMax: 10,
  /** GET_SECRETS of one connection: how often in a minute in the long run, and how often at once. Beyond, it is cut off. */
  controlAsksPerMinuteMax: 30,
  controlBurstAsksMax: 5,
  /** A path of a socket: `sun_path` has 108 bytes on Linux and 104 on macOS. */
  controlPathBytesMax: 100,
  /** A revoked sidecar has so long to say that its tunnels are cut and its secrets are gone. */
  controlRevokeMs: 1_000,
  /** A sidecar's own folder is looked at this often: whether it is still the one that was made. */
  controlLookMs: 5_000,
  /** Lines of a sidecar's audit in one frame, and their bytes. */
  controlLinesMax: 500,
  controlLinesBytesMax: 512 * 1024,
  /** After a frame of lines that the controller could not keep. */
  controlLinesPauseMs: 1_000,
  /** An audit without a file: what its keeper has not acknowledged yet. At the limit the answer is no, 503 `audit_unavailable`. */
  auditSegmentBytesMax: 16 * 1024 * 1024,
  /** One short question to the container engine. Waiting, attaching and pulling are bounded by their signal. */
  engineCallMs: 60_000,
  /** How an image comes is told this often, and printed so often where there is no terminal; layers that are counted for it. */
  pullReportMs: 250,
  pullLineMs: 5_000,
  imageLayersMax: 1_024,
  /** After the engine's events broke off they are asked for again so much later. */
  engineRetryMs: 1_000,
  /** The gate of a session has so long from its start until it has its secrets and answers: `sidecar_not_ready`. */
  gateReadyMs: 90_000,
  /** Covers over files of a workspace are looked at so often, where the system does not tell of a change. */
  coversLookMs: 5_000,
  /** Of what a gate printed before it ended, in the error. */
  gateWordsLinesMax: 6,
  gateWordsBytesMax: 2_000,
  /** An agent that is told to end has so long before it is killed. */
  agentStopMs: 700,
  /** What a container is given where the policy does not say: memory without swap, processors, processes. */
  agentMemoryBytes: 4 * 1024 ** 3,
  agentCpusMax: 2,
  agentProcessesMax: 512,
  sidecarMemoryBytes: 1024 ** 3,
  sidecarCpusMax: 1,
  sidecarProcessesMax: 256,
  probeMemoryBytes: 512 * 1024 ** 2,
  /** Containers beside one agent at the same time: more are 429 `too_many_siblings`. Its /24 has room for two more, while networks go. */
  siblingsMax: 12,
  /** What each is given at most, and never more than the agent. */
  siblingMemoryBytes: 2 * 1024 ** 3,
  siblingCpusMax: 2,
  siblingProcessesMax: 256,
  siblingScratchBytes: 512 * 1024 ** 2,
  /** Its variables, the longest text among them (the kernel takes 128 KiB of one with its name), and the files that are pinned in it. */
  siblingVariablesMax: 64,
  siblingTextBytesMax: 96 * 1024,
  siblingPinnedFilesMax: 32,
  siblingPinnedBytesMax: 16 * 1024 ** 2,
  /** A gate has so long to say that its ways to one are closed: its network goes in any case. */
  siblingWaysCloseMs: 2_000,
  /** A gate that the engine starts anew just then has so long to be taken off a network, and is looked at so often. */
  siblingLeaveMs: 20_000,
  siblingLeaveLookMs: 200,
  /** What it wrote to `/output` is counted this often; so many names are the most. */
  siblingOutputLookMs: 250,
  siblingOutputNamesMax: 2_000,
  /** Room on the disk that it may take besides, for blocks that are not full and those that a file system takes in advance. */
  siblingOutputRoomBytes: 16 * 1024 ** 2,
  /** Writable folders of a container that live in memory. */
  scratchBytes: 1024 ** 3,
  scratchSmallBytes: 64 * 1024 ** 2,
  sidecarAuditBytes: 256 * 1024 ** 2,
  scratchRunBytes: 16 * 1024 ** 2,
  /** What the engine keeps of one container's output: so many files of so much. */
  containerLogBytesMax: 10 * 1024 ** 2,
  containerLogFilesMax: 3,
  /** Certificates of an image, one file: a larger one is not taken for one. */
  imageFileBytesMax: 8 * 1024 ** 2,
  /** Folders of a PATH that a program of an image is looked for in. */
  imagePathFoldersMax: 64,
  /** Links that are followed to a file of an image. */
  imageLinksMax: 16,
  /** One frame of a container's output as the engine sends it. */
  engineFrameBytesMax: 1024 ** 2,
  /** A name that the operator gives a session. */
  sessionNameCharsMax: 48,
  /** Sessions that come up at the same time, and no more than there are processors: with more each takes so long that its selftest fails. */
  sessionsRisingMax: 8,
  /** Sessions that have ended and are still listed by their id. */
  sessionsEndedMax: 1_000,
  /** Jail networks that are tried when the engine finds that they overlap with one that it does not list. */
  jailTriesMax: 16,
  /** What a dead controller had asked of the engine may be done only now: it is looked for once more so much later. */
  reapAgainMs: 10_000,
  /** Connections to ports of one agent at the same time. */
  forwardConnectionsMax: 64,
  /** From the wish for such a connection until it stands. */
  forwardConnectMs: 10_000,
  /** Events that wait for one who listens and does not read: beyond, the oldest are lost. */
  sessionEventsMax: 1_000,
  /** Patterns of `filesystem.hide`, and the length of one: `config_invalid`. */
  hidePatternsMax: 256,
  hidePatternCharsMax: 512,
  /** Entries of a workspace that are looked at, for so long: the rest is told to be unknown, which blocks host commands in it. */
  surveyEntriesMax: 3_000_000,
  surveyMs: 30_000,
  /** A folder of the workspace that is larger itself (some hundred thousand names) is not read. */
  surveyFolderBytesMax: 32 * 1024 * 1024,
  /** Places of one kind (repositories, hidden files) that are kept of a workspace. */
  surveyFoundMax: 10_000,
  /** Files of git settings that a scan reads, their bytes, and the time that it takes. */
  scanFilesMax: 50_000,
  scanBytesMax: 64 * 1024 * 1024,
  scanMs: 20_000,
  /** One such file: a longer one is not read, and told. */
  gitFileBytesMax: 256 * 1024,
  /** Findings of one comparison that are listed. */
  findingsMax: 200,
  /** Mounts over one workspace: more is `workspace_refused`. */
  workspaceMountsMax: 256,
  /** Repositories inside of a workspace that are covered like its own; others are told, and looked at by the scan. */
  coveredRepositoriesMax: 16,
  /** What an agent without a workspace may write in its place. */
  emptyWorkspaceBytesMax: 1024 ** 3,
  /** The agent's home folder, in memory. */
  agentHomeBytesMax: 1024 ** 3,
  /** What a program prints is held back so long at most when it could be the beginning of a secret of which no more than the few bytes below came. */
  terminalHoldMs: 25,
  terminalPrefixBytesMax: 4,
  /** One control sequence to a terminal: a longer one is removed. SGR of many attributes has a hundred. */
  terminalSequenceBytesMax: 256,
  /** A control string to a terminal (all are removed) ends after so much without its terminator: what follows is text again. */
  terminalStringBytesMax: 4 * 1024 * 1024,
  /** A number in a control sequence: higher ones mean the edge of the screen, and become this. */
  terminalCountMax: 9_999,
  /** REP repeats a character so many times at most: a row of a wide terminal. */
  terminalRepeatsMax: 1_000,
  /** Questions for the cursor that a terminal has not answered yet: more are removed. */
  terminalQuestionsMax: 16,
  /** Keyboard modes that a program may have pushed (kitty's protocol): more pushes are removed. */
  terminalKeyboardsMax: 16,
  /** Colours and their like that wait for the text before them, which could be a secret: beyond, they go first. */
  terminalWaitingBytesMax: 16 * 1024,
  /** Questions of a program that are answered in the terminal's place wait for it to read: more are not answered. */
  terminalAnswersMax: 16,
  /** When a terminal is given back, answers that are still on their way are waited for and thrown away. */
  terminalAnswersMs: 200,
  /** Secrets that a session had before: its output is redacted of so many. */
  terminalFormerSecretsMax: 100,
  /** Columns and rows of a terminal. */
  terminalCellsMax: 9_999,
  /** Payload of one frame of a stream to or from a session: a longer one ends the stream. */
  streamFrameBytesMax: 64 * 1024,
  /** Input for a program that does not read it: beyond, the client is read no further. */
  streamInputBytesMax: 1024 * 1024,
  /** From the upgrade of a connection to its first frame, which says what is wanted. */
  streamRequestMs: 5_000,
  /** What a daemon answers when it refuses: more is not read. */
  daemonProblemBytesMax: 64 * 1024,
  /** One attempt of the probe at what must not answer. */
  probeAnswerMs: 300,
  /** One attempt of the probe at what must answer (the gate), or with a program: what takes longer counts as open. */
  probeAttemptMs: 5_000,
  /** The whole selftest of a session: 20 s with the start and the end of the probe's container, and what a gate that starts beside it may take. */
  selftestMs: 50_000,
  /** What a probe may print. */
  probeOutputBytesMax: 64 * 1024,
  /** One check of the doctor: the others don't wait for it. */
  doctorCheckMs: 40_000,
  /** Names of one folder, and folders right below a workspace, that are looked at to tell what it is written in. */
  initEntriesMax: 5_000,
  initFoldersMax: 200,
  /** A command for the host: its words together and each by itself, how many there are, and what is found inside of others. */
  commandCharsMax: 65_536,
  commandWordCharsMax: 16_384,
  commandWordsMax: 4_096,
  commandPartsMax: 256,
  /** A pattern of `host_commands`, and the rules of one list. */
  commandPatternCharsMax: 8_192,
  commandRulesMax: 2_000,
  /** One command that the doctor runs. */
  doctorCallMs: 20_000,
  /** A host command as it is asked for: arguments, their bytes, and the bytes of environment that its rule adds. */
  commandArgumentsMax: 4_096,
  commandArgumentBytesMax: 64 * 1024,
  commandEnvironmentBytesMax: 32 * 1024,
  /** One file of code that a host command runs, and how many it may name. */
  commandCodeBytesMax: 1024 ** 3,
  commandCodeFilesMax: 64,
  /** The first line of a script (BINPRM_BUF_SIZE of Linux), and scripts that are interpreters of scripts. */
  commandShebangBytesMax: 256,
  commandInterpretersMax: 4,
  /** A host command runs so long at most. */
  commandMs: 600_000,
  /** From asking a command's process group to end to ending it. */
  commandKillMs: 2_000,
  /** Output of a command that has ended is read for so long while its reader keeps up, and so long again without. */
  commandDrainMs: 5_000,
  /** A reader of live output that takes nothing for so long gets no more of it. */
  commandReaderMs: 30_000,
  /** Kept of each stream of a host command, and of one line of it. */
  commandOutputBytesMax: 1024 * 1024,
  commandLineBytesMax: 16 * 1024,
  /** Output is written to a file from so much on, up to so much of one command, and of all that are kept. */
  commandSpillAfterBytesMax: 256 * 1024,
  commandSpillBytesMax: 64 * 1024 ** 2,
  commandSpillsBytesMax: 512 * 1024 ** 2,
  /** A shorter line of a secret of many lines is not looked for by itself. */
  commandSecretLineCharsMin: 16,
  /** Whether a sandbox works here is tried for so long. */
  sandboxTrialMs: 5_000,
  /** What a sandboxed command may write into each of the folders that only it has. */
  sandboxScratchBytesMax: 2 * 1024 ** 3,
  /** The operator's password: guesses wait (below), so that it may be shorter than a passphrase that files are sealed with. */
  approverPasswordCharsMin: 8,
  approverPasswordCharsMax: 1_024,
  /** After a wrong password the next one is looked at so much later: doubled each time, from the first to the second. */
  approverWaitMinMs: 1_000,
  approverWaitMaxMs: 900_000,
  /** Passwords that wait for the one that is looked at: more are `presence_failed`. Each costs 128 MiB for a moment. */
  approverAttemptsMax: 8,
  /** Wrong passphrases of the vault that the page may give before the next has to wait as a password does. */
  unlockGuessesFreeMax: 3,
  /** The file of the password. */
  approverFileBytesMax: 4 * 1024,
  /** A proof of presence is used at once, or not at all. */
  presenceEvidenceMs: 10_000,
  /** The operator at the prompt of the operating system; such prompts at the same time. */
  presencePromptMs: 120_000,
  presencePromptsMax: 4,
  /** `notify.yaml`, and the ways of notice in it. */
  notifyFileBytesMax: 64 * 1024,
  notifyChannelsMax: 16,
  /** One notice by one way: a program, or a request and its answer. */
  notifyMs: 10_000,
  notifyAnswerBytesMax: 256 * 1024,
  /** After a notice what else is asked is gathered for so long: doubled while more comes, from the first to the second. */
  notifyPauseMinMs: 2_000,
  notifyPauseMaxMs: 20_000,
  /** Questions that are kept for the next notice: more are counted. */
  notifyHeldMax: 1_000,
  /** A name, and all that a notice shows of what is asked. */
  noticeNameCharsMax: 64,
  noticeSubjectCharsMax: 1_000,
  /** Answers from a chat are asked for so often while a question waits; a server that holds the request may do so for the second. */
  chatPollMs: 2_000,
  chatHoldMs: 20_000,
  /** After a failure later and later, up to so much. */
  chatPollMaxMs: 30_000,
} as const
