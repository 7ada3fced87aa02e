/**
 * Names under which anybody can get a name of their own. Well-known ones only: the public suffix list
 * (publicsuffix.org) has thousands and changes weekly, so this table stops mistakes and does not promise to stop all.
 */
const PUBLIC_SUFFIXES: ReadonlySet<string> = new Set(
  `
  ac.at co.at or.at com.au net.au org.au edu.au gov.au id.au com.br net.br org.br gov.br com.cn net.cn org.cn gov.cn com.co com.de com.es
  com.fr asso.fr gouv.fr co.hu co.id or.id co.il org.il co.in net.in org.in firm.in gen.in ind.in gov.in ac.jp co.jp go.jp ne.jp or.jp
  ac.kr co.kr go.kr or.kr com.mx org.mx gob.mx com.my com.ng co.nz net.nz org.nz govt.nz ac.nz com.pe com.ph com.pk com.pl net.pl org.pl
  edu.pl com.pt com.ru msk.ru spb.ru com.sa com.sg edu.sg gov.sg com.tr org.tr gov.tr com.tw org.tw com.ua in.ua kiev.ua ac.uk co.uk
  gov.uk ltd.uk me.uk net.uk nhs.uk org.uk plc.uk sch.uk com.ve com.vn ac.za co.za gov.za org.za web.za co.ke co.th in.th or.th ac.th
  com.ar gob.ar com.hk org.hk com.eg com.gr com.cy com.mt com.ec com.uy com.py com.bo com.gt com.do com.pr com.kw com.qa com.bd com.np com.lk
  eu.com uk.com us.com gb.net uk.net se.net jp.net de.com br.com cn.com jpn.com za.com ru.com sa.com co.com

  github.io githubpreview.dev gitlab.io bitbucket.io pages.dev workers.dev r2.dev trycloudflare.com vercel.app vercel.dev now.sh
  netlify.app surge.sh herokuapp.com herokussl.com onrender.com fly.dev deno.dev deno.net glitch.me glitch.dev repl.co replit.app replit.dev
  railway.app up.railway.app web.app firebaseapp.com appspot.com run.app a.run.app cloudfunctions.net
  cloudworkstations.dev blogspot.com withgoogle.com translate.goog usercontent.goog

  amazonaws.com.cn s3.amazonaws.com compute.amazonaws.com compute-1.amazonaws.com elb.amazonaws.com execute-api.amazonaws.com
  elasticbeanstalk.com cloudfront.net awsapprunner.com amplifyapp.com on.aws
  s3.us-east-1.amazonaws.com s3.us-east-2.amazonaws.com s3.us-west-1.amazonaws.com s3.us-west-2.amazonaws.com s3.eu-west-1.amazonaws.com
  s3.eu-west-2.amazonaws.com s3.eu-west-3.amazonaws.com s3.eu-central-1.amazonaws.com s3.eu-north-1.amazonaws.com
  s3.ap-northeast-1.amazonaws.com s3.ap-southeast-1.amazonaws.com s3.ap-southeast-2.amazonaws.com s3.ap-south-1.amazonaws.com
  s3-website-us-east-1.amazonaws.com s3-website-us-west-2.amazonaws.com s3-website-eu-west-1.amazonaws.com

  azurewebsites.net azurestaticapps.net azure-api.net azureedge.net azurefd.net cloudapp.net cloudapp.azure.com azurecontainer.io
  azurecontainerapps.io blob.core.windows.net file.core.windows.net web.core.windows.net queue.core.windows.net table.core.windows.net
  servicebus.windows.net trafficmanager.net

  storage.googleapis.com digitaloceanspaces.com ondigitalocean.app linodeobjects.com backblazeb2.com r2.cloudflarestorage.com
  wasabisys.com supabase.co supabase.in supabase.net ngrok.io ngrok.app ngrok.dev ngrok-free.app ngrok-free.dev loca.lt localtunnel.me serveo.net
  localhost.run lhr.life tunnelmole.net devtunnels.ms app.github.dev github.dev gitpod.io csb.app codesandbox.io stackblitz.io webcontainer.io
  hf.space streamlit.app modal.run pythonanywhere.com wordpress.com wixsite.com weebly.com webflow.io framer.app framer.website notion.site
  myshopify.com shopifypreview.com zendesk.com readthedocs.io readthedocs-hosted.com beehiiv.com substack.com tumblr.com

  dyndns.org dyndns.info ddns.net no-ip.org noip.com hopto.org zapto.org sytes.net duckdns.org dynu.net freedns.org mooo.com afraid.org
  nip.io sslip.io xip.io traefik.me localtest.me lvh.me oast.fun oast.live oast.me oast.online oast.pro oast.site interact.sh
  requestcatcher.com webhook.site pipedream.net burpcollaborator.net oastify.com
  `
    .trim()
    .split(/\s+/),
)

/** Why a wildcard below this name would open names of strangers, or `undefined`. */
export function suffixProblem(name: string): string | undefined {
  if (!name.includes('.')) return `"${name}" is a whole top-level domain`
  if (PUBLIC_SUFFIXES.has(name)) return `anybody can get a name under "${name}"`
  return undefined
}

/** A public suffix below this name, which a wildcard on it covers as well. */
export function suffixBelow(name: string): string | undefined {
  const tail = `.${name}`
  for (const suffix of PUBLIC_SUFFIXES) if (suffix.endsWith(tail)) return suffix
  return undefined
}
