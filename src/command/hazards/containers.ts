import { list, row, type ProgramTable } from './table.ts'

const ROOT = 'gives the host away: whoever may use the engine is root'

/** docker(1), docker compose, podman, buildx. */
export const DOCKER: ProgramTable = {
  names: ['docker', 'podman', 'nerdctl', 'docker-compose', 'podman-compose', 'buildah', 'ctr', 'crictl', 'lima', 'colima'],
  style: 'gnu',
  valued: 'fnHclvepuwmho',
  valuedLong: list('--format --filter --tail --since --until --context --host --config --log-level --file --project-name'),
  operandsAreNames: true,
  rows: [
    row('X', '-v --volume --mount --volumes-from', `mounts folders of the host: ${ROOT}`, {
      on: 'run create container/run container/create compose service',
    }),
    row(
      'X',
      '--privileged --cap-add --device --pid --ipc --uts --userns --network --net --security-opt --runtime --cgroup-parent --cgroupns --gpus --group-add --device-cgroup-rule --sysctl',
      `takes the walls away: ${ROOT}`,
      { on: 'run create exec container compose build buildx' },
    ),
    row('R', '--env-file --cidfile -e --env --label-file', 'reads or writes files, or puts values in', {
      on: 'run create exec container compose',
    }),
    row(
      'X',
      'run create exec start restart container/run container/create container/exec container/start container/restart attach container/attach debug',
      `runs code: ${ROOT}`,
    ),
    row('R', 'cp container/cp', 'copies files out of and into the host'),
    row('X', 'build builder image/build buildx bake builder/build', 'runs what a Dockerfile says, and fetches'),
    row(
      'X',
      '-f --file -o --output --secret --ssh --allow --build-context --iidfile --metadata-file',
      'takes instructions from a file, writes files or hands out keys',
      { on: 'build buildx image bake' },
    ),
    row(
      'X',
      'compose/up compose/run compose/build compose/exec compose/create compose/start compose/restart compose/down compose/rm compose/kill compose/stop compose/watch compose/cp compose/pull compose/push compose/publish compose/attach compose/alpha up down exec',
      'does what a compose file says, with its mounts',
    ),
    row('C', '-f --file --env-file --project-directory', 'takes another compose file, with its mounts', { on: 'compose' }),
    row('W', '-o --output', 'writes a file', { on: 'save export image container context compose plugin sbom' }),
    row('W', 'save export load import image/save image/load image/import container/export', 'reads or writes files'),
    row('N', 'push pull login logout search image/push image/pull manifest trust', 'talks to a registry'),
    row(
      'X',
      'plugin context/use context/import context/create context/update context/rm context/export',
      `changes what the client runs and speaks with: ${ROOT}`,
    ),
    row(
      'C',
      '-H --host --config --context -c --tlscacert --tlscert --tlskey',
      'speaks with another engine, or by other plugins and helpers',
      { on: '@globals' },
    ),
    row(
      'W',
      'system/prune image/prune container/prune volume/prune network/prune builder/prune volume/rm volume/create network/rm network/create network/connect network/disconnect image/rm rmi rm container/rm kill stop container/kill container/stop pause unpause rename update tag image/tag commit container/commit checkpoint container/update wait',
      'changes or deletes',
    ),
    row('X', 'swarm service stack node secret config', `runs services: ${ROOT}`),
    row('R', 'inspect container/inspect image/inspect', 'shows environments, with the secrets in them'),
  ],
  readOnly: list(
    'ps images version info logs history port top stats diff events network/ls network/list volume/ls volume/list compose/ps compose/config compose/logs compose/ls compose/images compose/top compose/version container/ls container/list container/logs container/top container/stats container/port container/diff image/ls image/list image/history system/df system/info context/ls context/show buildx/ls buildx/version --version',
  ),
  tier: 'T2',
}

/** kubectl(1). */
export const KUBECTL: ProgramTable = {
  names: ['kubectl', 'oc', 'k9s', 'kubecolor', 'minikube', 'kind', 'k3s'],
  style: 'gnu',
  valued: 'nflockLs',
  valuedLong: list(
    '--namespace --output --selector --context --cluster --user --tail --since --container --field-selector --sort-by --field-manager --request-timeout',
  ),
  operandsAreNames: true,
  rows: [
    row('X', 'exec cp attach debug run port-forward proxy plugin krew', 'runs commands, copies files or opens ports there'),
    row(
      'N',
      'apply create replace patch edit delete scale autoscale set label annotate drain cordon uncordon taint expose certificate rollout/restart rollout/undo rollout/pause rollout/resume auth/reconcile',
      'changes the cluster',
    ),
    row('R', '-f --filename', 'reads a file, or fetches it', { on: 'get describe diff logs explain wait' }),
    row('X', '-k --kustomize', 'reads a folder with plugins and bases from elsewhere'),
    row('X', 'kustomize', 'reads a folder with plugins and bases from elsewhere'),
    row('R', 'get/secrets get/secret describe/secrets describe/secret', 'prints secrets'),
    row('R', '', 'prints secrets', { on: 'get describe', operand: /(?:^|,)secrets?(?:[,./]|$)/i }),
    row('R', '--raw', 'asks for any path, or shows what signs in'),
    row(
      'C',
      'config/set-credentials config/set config/set-cluster config/set-context config/use-context config/use config/unset config/delete-context config/delete-cluster config/delete-user config/rename-context',
      'changes which cluster is meant, and who asks',
    ),
    row('X', '--kubeconfig', 'takes another configuration, which may name programs to run'),
    row(
      'C',
      '--as --as-group --as-uid --token --server -s --user --client-key --client-certificate --certificate-authority --insecure-skip-tls-verify --tls-server-name --username --password',
      'asks as somebody else, or somebody else',
    ),
    row('R', '-o --output', 'takes a template from a file', { value: /-file=/ }),
    row('W', '--cache-dir --profile-output --profile --log-dir --log-file --output-directory', 'writes files'),
  ],
  readOnly: list(
    'get describe logs top explain version api-resources api-versions cluster-info auth/can-i auth/whoami rollout/status rollout/history config/view config/current-context config/get-contexts config/get-clusters events wait --version',
  ),
}

/** helm(1). */
export const HELM: ProgramTable = {
  names: ['helm', 'helmfile'],
  style: 'gnu',
  valued: 'nof',
  operandsAreNames: true,
  rows: [
    row('X', '--post-renderer --post-renderer-args', 'runs a program'),
    row('X', 'plugin', 'installs or runs programs'),
    row(
      'R',
      '--set-file -f --values --set --set-json --set-string --set-literal --ca-file --cert-file --key-file --keyring --registry-config --repository-config',
      'reads any file, or changes what is asked for',
    ),
    row(
      'C',
      '--kubeconfig --kube-as-user --kube-token --kube-apiserver --kube-context --kube-as-group --kube-insecure-skip-tls-verify',
      'speaks with another cluster, or as somebody else',
    ),
    row(
      'N',
      'install upgrade uninstall rollback delete test push registry repo/add repo/remove repo/update pull fetch dependency dep',
      'changes the cluster, or talks to others',
    ),
    row('W', '--untardir --untar --output-dir -d --destination', 'writes files'),
    row('W', 'create package', 'writes files'),
    row('R', 'template lint show get/values get/all get/manifest', 'reads charts, which look things up in the cluster'),
  ],
  readOnly: list('list ls status history version search/repo repo/list env get/notes get/metadata --version'),
}
