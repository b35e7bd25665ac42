define internal REAL @NAME(REAL %a, REAL %p, ptr %file, i32 %line) alwaysinline {
  %rest = call REAL @FMOD(REAL %a, REAL %p)
  %zero = fcmp oeq REAL %rest, 0.0
  %below = fcmp olt REAL %rest, 0.0
  %down = fcmp olt REAL %p, 0.0
  %same = icmp eq i1 %below, %down
  %keep = or i1 %zero, %same
  %sum = fadd REAL %rest, %p
  %result = select i1 %keep, REAL %rest, REAL %sum
  ret REAL %result
}
declare REAL @FMOD(REAL, REAL)
