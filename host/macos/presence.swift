// Asks the user of this Mac, by LocalAuthentication: Touch ID, a paired watch, or the password of the account.
//
//   presence TEXT      exit 0 confirmed, 1 not confirmed, 2 it could not be asked
//   presence --check   exit 0 it could be asked, 2 it could not
//
// install.sh compiles it and puts it where only root can replace it.
import Foundation
import LocalAuthentication

let arguments = CommandLine.arguments.dropFirst()
guard arguments.count == 1, let text = arguments.first, !text.isEmpty, text.utf8.count <= 200 else {
  FileHandle.standardError.write(Data("usage: presence TEXT | --check\n".utf8))
  exit(2)
}

let context = LAContext()
// No answer of a moment ago is taken for this one, not even that of the unlocked screen.
context.touchIDAuthenticationAllowableReuseDuration = 0

var problem: NSError?
guard context.canEvaluatePolicy(.deviceOwnerAuthentication, error: &problem) else {
  FileHandle.standardError.write(Data("\(problem?.localizedDescription ?? "unavailable")\n".utf8))
  exit(2)
}
if text == "--check" { exit(0) }

let done = DispatchSemaphore(value: 0)
var isConfirmed = false
// macOS writes before it: "presence" is trying to …
context.evaluatePolicy(.deviceOwnerAuthentication, localizedReason: "confirm the answer to an agent (\(text))") { success, _ in
  isConfirmed = success
  done.signal()
}
done.wait()
exit(isConfirmed ? 0 : 1)
