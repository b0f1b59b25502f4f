import{$t as e,At as t,Bt as n,Dt as r,Et as i,Ft as a,Gt as o,Ht as s,Jt as c,Lt as l,Nt as u,Rt as d,Ut as f,Zt as p,_ as m,cn as h,ft as g,ht as _,in as v,jt as y,kt as b,mt as x,nt as S,ot as C,qt as w,rn as T,rt as E,sn as D,tn as O,w as k}from"./index-ZPIkV1Nk.js";var A=`urn:ietf:params:oauth:grant-type:device_code`,j=`urn:ietf:params:oauth:grant-type:token-exchange`,M=[{name:`web`,label:`Web application`,text:`Runs on a server, which can keep a secret`,type:`confidential`,grants:[`authorization_code`,`refresh_token`],redirects:!0},{name:`spa`,label:`Single-page, mobile or desktop app`,text:`Runs on devices of its users: no secret, PKCE instead`,type:`public`,grants:[`authorization_code`,`refresh_token`],redirects:!0},{name:`service`,label:`Service`,text:`Calls the API as itself, without a user`,type:`confidential`,grants:[`client_credentials`],redirects:!1},{name:`device`,label:`Command line or device`,text:`Shows a code, which the user enters in a browser elsewhere`,type:`public`,grants:[A,`refresh_token`],redirects:!1}],N={authorization_code:`Sign-in by redirect`,refresh_token:`Refresh tokens`,client_credentials:`As itself`,[A]:`Device code`,[j]:`Token exchange`},P=e=>N[e]??e,F=e=>[...new Set(e.map(e=>e.trim()).filter(Boolean))];function I(e,t,n){let r=e.checked?.[t]?.indexOf(n.trim())??-1;return r<0?void 0:e.field(`${t}[${r}]`)}var L=e=>e.link.replace(/\/console\/oauth\/.*$/,``);function R(e){let t=e.redirect_uris[0];if(!t||!e.grant_types.includes(`authorization_code`))return;let n=[...crypto.getRandomValues(new Uint8Array(43))].map(e=>`ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_`[e%64]).join(``),r={response_type:`code`,client_id:e.id,redirect_uri:t,scope:e.scopes.join(` `),state:`console`,code_challenge:n,code_challenge_method:`S256`};return`/authorize?`+new URLSearchParams(r)}function z(e){let t=JSON.stringify,n=L(e),r=e.client_type===`confidential`,i=e.redirect_uris[0]??`https://app.example.com/callback`,a=e.scopes.join(` `),o=n.startsWith(`http:`)?`
  undefined,
  { execute: [oidc.allowInsecureRequests] }, // the issuer is plain http`:``,s=[],c=(e,t,n)=>s.push({name:e,label:t,text:n.trim()});e.grant_types.includes(`authorization_code`)&&r&&(c(`node`,`Node.js`,`
// npm install openid-client
import * as oidc from "openid-client";

const config = await oidc.discovery(
  new URL(${t(n)}),
  ${t(e.id)},
  process.env.STEWARD_CLIENT_SECRET,${o}
);

// Send the user to this address. Keep verifier and state in the session.
const verifier = oidc.randomPKCECodeVerifier();
const state = oidc.randomState();
const address = oidc.buildAuthorizationUrl(config, {
  redirect_uri: ${t(i)},
  scope: ${t(a)},
  state,
  code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
  code_challenge_method: "S256",
});

// When the user comes back:
const tokens = await oidc.authorizationCodeGrant(config, new URL(request.url), {
  pkceCodeVerifier: verifier,
  expectedState: state,
});
console.log(tokens.claims());`),c(`nextjs`,`Next.js`,`
// npm install next-auth@beta
// Its redirect URI is https://<your host>/api/auth/callback/steward
import NextAuth from "next-auth";

export const { handlers, auth, signIn, signOut } = NextAuth({
  providers: [
    {
      id: "steward",
      name: "Steward",
      type: "oidc",
      issuer: ${t(n)},
      clientId: ${t(e.id)},
      clientSecret: process.env.STEWARD_CLIENT_SECRET,
      authorization: { params: { scope: ${t(a)} } },
    },
  ],
});`),c(`python`,`Python`,`
# pip install authlib flask requests
import os
from authlib.integrations.flask_client import OAuth
from flask import Flask, session

app = Flask(__name__)
app.secret_key = os.environ["FLASK_SECRET_KEY"]
steward = OAuth(app).register(
    "steward",
    client_id=${t(e.id)},
    client_secret=os.environ["STEWARD_CLIENT_SECRET"],
    server_metadata_url=${t(n+`/.well-known/openid-configuration`)},
    client_kwargs={"scope": ${t(a)}, "code_challenge_method": "S256"},
)

@app.get("/login")
def login():
    return steward.authorize_redirect(${t(i)})

@app.get("/callback")
def callback():
    session["user"] = steward.authorize_access_token()["userinfo"]
    return session["user"]`),c(`go`,`Go`,`
// go get github.com/coreos/go-oidc/v3/oidc golang.org/x/oauth2
provider, err := oidc.NewProvider(ctx, ${t(n)})
if err != nil {
	return err
}
config := oauth2.Config{
	ClientID:     ${t(e.id)},
	ClientSecret: os.Getenv("STEWARD_CLIENT_SECRET"),
	Endpoint:     provider.Endpoint(),
	RedirectURL:  ${t(i)},
	Scopes:       []string{${e.scopes.map(e=>t(e)).join(`, `)}},
}

// Send the user to this address. Keep verifier and state in the session.
verifier := oauth2.GenerateVerifier()
address := config.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier))

// When the user comes back:
token, err := config.Exchange(ctx, r.FormValue("code"), oauth2.VerifierOption(verifier))`)),e.grant_types.includes(`authorization_code`)&&!r&&(c(`browser`,`Browser`,`
// npm install oidc-client-ts
import { UserManager } from "oidc-client-ts";

const users = new UserManager({
  authority: ${t(n)},
  client_id: ${t(e.id)},
  redirect_uri: ${t(i)},
  scope: ${t(a)},
});

// The button "Sign in":
await users.signinRedirect();

// On the page of the redirect URI:
const user = await users.signinCallback();
console.log(user.profile);`),c(`react`,`React`,`
// npm install react-oidc-context oidc-client-ts
import { AuthProvider, useAuth } from "react-oidc-context";

const settings = {
  authority: ${t(n)},
  client_id: ${t(e.id)},
  redirect_uri: ${t(i)},
  scope: ${t(a)},
};

export const App = () => <AuthProvider {...settings}><SignIn /></AuthProvider>;

function SignIn() {
  const auth = useAuth();
  if (auth.isAuthenticated) return <p>Hello {auth.user?.profile.name}</p>;
  return <button onClick={() => auth.signinRedirect()}>Sign in</button>;
}`)),e.grant_types.includes(`client_credentials`)&&c(`service`,`As itself (curl)`,`
curl ${m(n+`/oauth/token`)} \\
  -u ${m(e.id)}:"$STEWARD_CLIENT_SECRET" \\
  -d grant_type=client_credentials \\
  --data-urlencode ${m(`scope=`+e.scopes.filter(e=>e.includes(`:`)).join(` `))}`),e.grant_types.includes(A)&&c(`device`,`Device code (curl)`,`
# Show user_code and verification_uri of the answer to the user.
curl ${m(n+`/device_authorization`)} \\
  -d client_id=${m(e.id)}${r?` -d client_secret="$STEWARD_CLIENT_SECRET"`:``} \\
  --data-urlencode ${m(`scope=`+a)}

# Then ask for the tokens every few seconds, as "interval" says.
curl ${m(n+`/oauth/token`)} \\
  -d client_id=${m(e.id)}${r?` -d client_secret="$STEWARD_CLIENT_SECRET"`:``} \\
  -d grant_type=${A} \\
  -d device_code="$DEVICE_CODE"`),e.grant_types.includes(`urn:ietf:params:oauth:grant-type:token-exchange`)&&c(`exchange`,`Token exchange (curl)`,`
# ACCESS_TOKEN was issued to this app or for its audience.
curl ${m(n+`/oauth/token`)} \\
  -u ${m(e.id)}:"$STEWARD_CLIENT_SECRET" \\
  -d grant_type=${j} \\
  -d subject_token="$ACCESS_TOKEN" \\
  -d subject_token_type=urn:ietf:params:oauth:token-type:access_token`);let l={OIDC_ISSUER:n,OIDC_CLIENT_ID:e.id,...r?{OIDC_CLIENT_SECRET:`<the secret>`}:{},OIDC_REDIRECT_URI:i,OIDC_SCOPES:a};return c(`env`,`Environment`,Object.entries(l).map(([e,n])=>`${e}=${t(n)}`).join(`
`)),s}var B=class{#e=e();get problem(){return n(this.#e)}set problem(e){p(this.#e,e)}#t=e();get checked(){return n(this.#t)}set checked(e){p(this.#t,e)}field(e){return this.problem?.field(e)??``}};function V(e,t){let n=new B;return f(()=>{let r=e(),i=new AbortController,a=setTimeout(async()=>{let e=await H(t(r,i.signal));i.signal.aborted||e&&(E(e)||e.status===401)||(n.problem=e,n.checked=r)},250);return()=>{clearTimeout(a),i.abort()}}),n}async function H(e){try{await e}catch(e){return S(e)}}var U=u(`<span class="fault"> </span>`),W=u(`<span class="hint good">This address can be used.</span>`),G=u(`<div class="field"><div class="row uri"><input class="input grow mono" placeholder="https://app.example.com/callback" autocomplete="off" spellcheck="false" inputmode="url"/> <button type="button" class="btn plain square"><!></button></div> <span role="status"><!></span></div>`),K=u(`<div><button type="button" class="btn tiny"><!>Add address</button></div>`),q=u(`<fieldset><legend> </legend> <p class="small soft"> </p> <!> <!></fieldset>`);function J(e,l){let u=a();v(l,!0);let f=C(l,`uris`,15);var p=q(),m=o(p),S=w(m,!0),E=c(m,2),A=w(E,!0),j=c(E,2);i(j,17,f,r,(e,r,i)=>{let a=O(()=>l.verdict(n(r)));var p=G(),m=o(p),v=o(m);x(v);var S=c(v,2),C=o(S);k(C,{name:`close`}),h(S),h(m);var T=c(m,2),E=o(T),D=e=>{var r=U(),i=w(r,!0);s(()=>t(i,n(a))),y(e,r)},A=e=>{var t=W();y(e,t)};b(E,e=>{n(a)?e(D):n(a)===``&&e(A,1)}),h(T),h(p),s(()=>{_(v,`name`,l.name),_(v,`aria-label`,`${l.label} ${i+1}`),_(v,`aria-invalid`,n(a)?`true`:void 0),_(v,`aria-describedby`,`${u}-${i}`),_(S,`aria-label`,`Remove ${l.label} ${i+1}`),_(T,`id`,`${u}-${i}`)}),g(v,()=>f()[i],e=>f(f()[i]=e,!0)),d(`click`,S,()=>f(f().filter((e,t)=>t!==i))),y(e,p)});var M=c(j,2),N=e=>{var t=K(),n=o(t),r=o(n);k(r,{name:`plus`}),D(),h(n),h(t),d(`click`,n,()=>f([...f(),``])),y(e,t)};b(M,e=>{f().length<100&&e(N)}),h(p),s(()=>{t(S,l.label),t(A,l.hint)}),y(e,p),T()}l([`click`]);export{L as a,j as c,P as i,R as l,V as n,M as o,F as r,z as s,J as t,I as u};