C     Fixed form, labels, COMMON, implicit types.
      PROGRAM NAS
      PARAMETER (N=33, M=17)
      COMMON /FIELDS/ U(N,M), V(N,M), W(N)
      DOUBLE PRECISION U, V, W, S
      INTEGER I, J
      DO 5 J = 1, M
      DO 5 I = 1, N
      U(I,J) = I + 0.5D0*J
    5 V(I,J) = I - J
      CALL STEP(S)
      CALL STEP(S)
      PRINT *, S, U(3,4), V(N,M), W(7)
      CALL LAST(K)
      PRINT *, K
      END

      SUBROUTINE STEP(S)
      PARAMETER (N=33, M=17)
      COMMON /FIELDS/ U(N,M), V(N,M), W(N)
      DOUBLE PRECISION U, V, W, S, T, R1, R2, R3, R4
c$acc kernels
      DO 10 J = 2, M-1
        DO 10 I = 2, N-1
          T = 0.25D0*(V(I-1,J) + V(I+1,J) +
     &        V(I,J-1) + V(I,J+1))
   10   U(I,J) = U(I,J) + T
c$acc loop independent private(r1, r2,
c$acc+ r3)
      DO 30 J = 1, M
        DO 20 I = 1, N
          R1 = U(I,J)
          IF (R1 .LT. 0.0D0) GO TO 20
          R2 = R1*2
          R3 = R2 - V(I,J)
          V(I,J) = R3*0.01D0
   20   CONTINUE
   30 CONTINUE
      DO I = N, 1, -1
        IF (MOD(I,3) .EQ. 0) CYCLE
        W(I) = U(I,1)
      END DO
c$acc end kernels
      S = 0
!$acc kernels copy(s)
      DO 40 J = 1, M
      DO 40 I = 1, N
   40 S = S + 1.0D0
!$acc end kernels
      END

      SUBROUTINE LAST(K)
      PARAMETER (N=33, M=17)
      COMMON /FIELDS/ U(N,M), V(N,M), W(N)
      DOUBLE PRECISION U, V, W
      INTEGER K
!$acc kernels
      DO K = 1, N, 4
         W(K) = W(K) * 2
      ENDDO
!$acc end kernels
      END
